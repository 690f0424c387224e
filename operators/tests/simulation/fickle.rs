//! An assignor that changes its mind for no reason, until it is told to settle.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use timely_splits::assignor::{Assignor, Plan, ReaderProfile, Situation, StickyBalanced};

use crate::forest::Leaf;
use crate::random::Random;

/// Whether an assignor changes its mind, shared with whoever decides that.
#[derive(Clone, Debug)]
pub(crate) struct Mood {
    fickle: Arc<AtomicBool>,
    seed: u64,
}

impl Mood {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            fickle: Arc::new(AtomicBool::new(true)),
            seed,
        }
    }

    pub(crate) fn settle(&self) {
        self.fickle.store(false, Ordering::Relaxed);
    }
}

/// [`StickyBalanced`], but for its moods.
pub(crate) struct Fickle {
    mood: Option<(Mood, RefCell<Random>)>,
}

impl Fickle {
    pub(crate) fn new(mood: Option<Mood>) -> Self {
        Self {
            mood: mood.map(|mood| {
                let random = Random::of(mood.seed, 2);
                (mood, RefCell::new(random))
            }),
        }
    }

    fn random(&self) -> Option<&RefCell<Random>> {
        let (mood, random) = self.mood.as_ref()?;
        mood.fickle.load(Ordering::Relaxed).then_some(random)
    }
}

impl Assignor<Leaf> for Fickle {
    fn plan(&self, situation: &Situation<'_, Leaf>) -> Plan {
        let mut plan = StickyBalanced.plan(situation);
        if let Some(random) = self.random() {
            let mut random = random.borrow_mut();
            for reader in &mut plan.readers {
                if random.chance(30) {
                    *reader = random.index(situation.readers.len());
                }
            }
        }
        plan
    }

    fn place(
        &self,
        readers: &[ReaderProfile],
        held: &[usize],
        splits: usize,
    ) -> Option<Vec<usize>> {
        if self.random().is_some() {
            return None;
        }
        Assignor::<Leaf>::place(&StickyBalanced, readers, held, splits)
    }
}
