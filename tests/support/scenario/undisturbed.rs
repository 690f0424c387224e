//! What did not change is read on as before, under a steady load.

use std::time::{Duration, Instant};

use super::brokers::Brokers;
use super::exactly::assert_exact;
use super::load::{SteadyLoad, longest_pause};
use super::plan::Backend;
use super::run::Run;
use super::world::{Described, World};

/// How many records of the steady load each part of a test waits for.
const PART: usize = 200;

/// Guards against hangs only; the figures are printed.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The first of the numbers that are not of the steady load.
const OTHERS: u64 = 1_000_000;

/// What the brokers tell about the requests they got.
pub(crate) trait Witness<B> {
    /// The source reads, and nothing has changed yet.
    fn before(&mut self, brokers: &B);

    /// All changes are over: asserts that the brokers of `a` saw no new connection and sent no
    /// record of partition 0 of `topic` twice.
    fn after(&mut self, brokers: &B, topic: &str);
}

/// S5: `a` is read on while `b` joins and leaves.
pub(crate) fn other_cluster<B: Brokers + 'static>(world: &World<B>, witness: impl Witness<B>) {
    for cluster in ["a", "b"] {
        world.brokers.create_topic(cluster, "orders", 2);
    }
    world.write("b", "orders", 2, OTHERS..OTHERS + 10);
    let steps = [Described::orders(&["a", "b"]), Described::orders(&["a"])];

    Load {
        world,
        topic: "orders",
        splits: 2,
        others: 10,
    }
    .goes_on(&Described::orders(&["a"]), &steps, witness);
}

/// S19: one topic is read on while another takes the place of a third.
pub(crate) fn other_topic<B: Brokers + 'static>(world: &World<B>, witness: impl Witness<B>) {
    for topic in ["kept", "old", "new"] {
        world.brokers.create_topic("a", topic, 2);
    }
    world.write("a", "old", 2, OTHERS..OTHERS + 10);
    world.write("a", "new", 2, OTHERS + 10..OTHERS + 20);
    let described = |topic| Described::new().stream("orders", "a", &["kept", topic]);

    Load {
        world,
        topic: "kept",
        splits: 4,
        others: 20,
    }
    .goes_on(&described("old"), &[described("new")], witness);
}

/// A steady load on a topic of `a`, and how many records come from elsewhere.
struct Load<'a, B> {
    world: &'a World<B>,
    topic: &'static str,
    /// How many splits there are before the changes.
    splits: usize,
    others: u64,
}

impl<B: Brokers + 'static> Load<'_, B> {
    /// Reads with and without changes, prints the longest pauses, and asserts what must be true.
    fn goes_on(&self, before: &Described, steps: &[Described], mut witness: impl Witness<B>) {
        let (world, topic) = (self.world, self.topic);
        world.publish(before);
        let load = SteadyLoad::start(&world.brokers.properties("a"), topic);
        let run = world.run(&world.plan(), Backend::Threads(2));
        self.await_part(&run);
        // A worker that joins late is given its share by a move, which has nothing to do with a change.
        run.wait("all splits are where they stay", |state| {
            state.balanced(self.splits)
        });
        let without = self.pause_during(&run, || self.await_part(&run));

        witness.before(&world.brokers);
        let with = self.pause_during(&run, || {
            for (epoch, step) in (2..).zip(steps) {
                world.publish(step);
                run.await_epoch(epoch);
                self.await_part(&run);
            }
        });
        let written = load.stop();
        run.settle(usize::try_from(written + self.others).expect("there are few"));

        say(&format!(
            "longest pause of {topic}: {without:?} without a change, {with:?} with {} changes",
            steps.len()
        ));
        witness.after(&world.brokers, topic);
        assert!(with < PAUSE_MAX, "{with:?}");
        let all = (0..written).chain(OTHERS..OTHERS + self.others);
        run.end().with(|state| assert_exact(state, all));
    }

    /// The longest time between two batches of partition 0 while `act` goes on.
    fn pause_during(&self, run: &Run, act: impl FnOnce()) -> Duration {
        let since = Instant::now();
        act();
        let pause = |state: &_| longest_pause(state, "a", self.topic, since);
        run.observed.with(pause)
    }

    /// Waits for more records of the load.
    fn await_part(&self, run: &Run) {
        let before = run.observed.with(|state| state.rows_of("a", self.topic));
        run.wait("more records of the load came", |state| {
            state.rows_of("a", self.topic) >= before + PART
        });
    }
}

#[expect(clippy::print_stderr, reason = "figures are for whoever looks")]
fn say(figures: &str) {
    eprintln!("{figures}");
}
