//! Parts of states.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use crate::hash::fingerprint;

/// A part of a state, shared between states until it changes, and hashed once until then.
#[derive(Clone, Debug)]
pub(crate) struct Part<T> {
    value: Rc<T>,
    print: Cell<Option<u64>>,
}

impl<T: Clone> Part<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Rc::new(value),
            print: Cell::new(None),
        }
    }

    pub(crate) fn change(&mut self) -> &mut T {
        self.print.set(None);
        Rc::make_mut(&mut self.value)
    }
}

impl<T: Hash> Part<T> {
    pub(crate) fn print(&self) -> u64 {
        let print = self
            .print
            .get()
            .unwrap_or_else(|| fingerprint(&*self.value));
        self.print.set(Some(print));
        print
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Hash> Hash for Part<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.print());
    }
}
