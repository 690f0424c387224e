//! Breadth first through all states.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::choice::Choices;
use crate::hash::fingerprint;
use crate::ledger::Violation;
use crate::step::{Budget, Step};
use crate::story;
use crate::world::{Model, World};

/// What came of exploring a model.
#[derive(Clone, Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    /// The most steps to a state.
    pub(crate) depth: usize,
    /// States in which nothing has to happen any more.
    pub(crate) ends: usize,
    /// Whether there is no other state.
    pub(crate) exhausted: bool,
    pub(crate) took: Duration,
    pub(crate) found: Option<Found>,
}

/// A sentence that is false, and how it comes about.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) violation: Violation,
    /// The shortest way there, a line a step.
    pub(crate) story: Vec<String>,
}

/// The fingerprint of the state before each state; zero before the first ones.
#[expect(
    clippy::disallowed_types,
    reason = "millions of entries, and nothing goes through them in order"
)]
type Seen = std::collections::HashMap<u64, u64, BuildHasherDefault<AsItIs>>;

/// Explores `model` breadth first, until `states_max` states were seen.
#[expect(
    clippy::disallowed_methods,
    reason = "tells how long it took, and decides nothing"
)]
pub(crate) fn explore(model: &Model, states_max: usize) -> Explored {
    let begun = std::time::Instant::now();
    let mut explorer = Explorer {
        model,
        states_max,
        seen: Seen::default(),
        next: Vec::new(),
        transitions: 0,
        ends: 0,
    };
    let mut depth = 0;
    let found = match World::initial(model) {
        Ok(initial) => explorer.run(initial, &mut depth),
        Err(violation) => Some(Found {
            violation,
            story: vec!["everybody starts".to_owned()],
        }),
    };
    Explored {
        states: explorer.seen.len(),
        transitions: explorer.transitions,
        depth,
        ends: explorer.ends,
        exhausted: found.is_none() && explorer.next.is_empty(),
        took: begun.elapsed(),
        found,
    }
}

struct Explorer<'a> {
    model: &'a Model,
    states_max: usize,
    seen: Seen,
    /// States that were seen and not expanded, of the next level.
    next: Vec<(u64, World)>,
    transitions: usize,
    ends: usize,
}

impl Explorer<'_> {
    fn run(&mut self, initial: Vec<World>, depth: &mut usize) -> Option<Found> {
        let roots = initial.clone();
        for world in initial {
            let print = fingerprint(&world);
            self.seen.insert(print, 0);
            self.next.push((print, world));
        }
        loop {
            let level = std::mem::take(&mut self.next);
            for (print, world) in level {
                if let Err((step, violation)) = self.expand(print, &world) {
                    let path = self.path(print);
                    let story = story::tell(self.model, &roots, &path, step);
                    return Some(Found { violation, story });
                }
                if self.seen.len() >= self.states_max {
                    // What is left of this level keeps `exhausted` false.
                    self.next.push((print, world));
                    return None;
                }
            }
            if self.next.is_empty() {
                return None;
            }
            *depth += 1;
        }
    }

    /// Takes each step that is possible in `world`.
    fn expand(&mut self, from: u64, world: &World) -> Result<(), (Option<Step>, Violation)> {
        let mut at_rest = true;
        for step in world.possible(self.model) {
            let free = Budget::is_free(step);
            let outcome = each(world, step, |next| {
                self.transitions += 1;
                at_rest &= !free;
                let print = fingerprint(&next);
                if let Entry::Vacant(vacant) = self.seen.entry(print) {
                    vacant.insert(from);
                    self.next.push((print, next));
                }
                true
            });
            outcome.map_err(|violation| (Some(step), violation))?;
        }
        if at_rest {
            self.ends += 1;
            guarded(|| world.end(self.model)).map_err(|violation| (None, violation))?;
        }
        Ok(())
    }

    /// The states on the way to one, by fingerprint.
    fn path(&self, last: u64) -> Vec<u64> {
        let mut path = vec![last];
        while let Some(before) = self
            .seen
            .get(&path[path.len() - 1])
            .filter(|before| **before != 0)
        {
            path.push(*before);
        }
        path.reverse();
        path
    }
}

/// Takes `step` in `world`, once for each decision that the assignor could make in it, until `visit`
/// says that it has seen enough.
pub(crate) fn each(
    world: &World,
    step: Step,
    mut visit: impl FnMut(World) -> bool,
) -> Result<(), Violation> {
    let mut given = Some(Vec::new());
    while let Some(choices) = given {
        let mut next = world.clone();
        Choices::begin(&choices);
        let changed = guarded(|| next.step(step))?;
        given = Choices::next();
        if changed && !visit(next) {
            return Ok(());
        }
    }
    Ok(())
}

/// A panic of the code under test is a violation like any other.
fn guarded<T>(run: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(words(&*panic)))
}

fn words(panic: &(dyn Any + Send)) -> Violation {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panics: {}", text.unwrap_or("without words"))
}

/// A hasher of what is a hash already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("fingerprints are numbers");
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
