//! What did not change is read on as before, under a steady load.

use std::time::{Duration, Instant};

use timely_kafka::ReaderId;
use timely_kafka::model::{ClusterId, KafkaSplit, Partition, TopicName};

use super::brokers::Brokers;
use super::exactly::assert_exact;
use super::load::{SteadyLoad, longest_pause};
use super::observed::State;
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
    let others = orders_on_all(world, &["b"]);
    let steps = [
        Step::Answer(Described::orders(&["a", "b"])),
        Step::Answer(Described::orders(&["a"])),
    ];
    Load::orders(world, 2, others).goes_on(&Described::orders(&["a"]), &steps, witness);
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
    .goes_on(
        &described("old"),
        &[Step::Answer(described("new"))],
        witness,
    );
}

/// Partition 0 is read on while partition 1 moves to the other worker, and back.
pub(crate) fn other_partition<B: Brokers + 'static>(world: &World<B>, witness: impl Witness<B>) {
    let others = orders_on_all(world, &[]);
    Load::orders(world, 2, others).goes_on(
        &Described::orders(&["a"]),
        &[Step::Move, Step::Move],
        witness,
    );
}

/// S20: `a` is read on while the properties of `b` change.
pub(crate) fn other_properties<B: Brokers + 'static>(world: &World<B>, witness: impl Witness<B>) {
    let others = orders_on_all(world, &["b"]);
    let properties = world.brokers.properties("b").with("client.id", "another");
    let changed = Described::orders(&["a", "b"]).cluster("b", properties);
    Load::orders(world, 4, others).goes_on(
        &Described::orders(&["a", "b"]),
        &[Step::Answer(changed)],
        witness,
    );
}

/// S14: `a` is read on while `c` hangs, `b` leaves, and then `c` does. The world has a cluster `c` too.
pub(crate) fn hung_cluster<B: Brokers + 'static>(world: &World<B>, witness: impl Witness<B>) {
    let others = orders_on_all(world, &["b", "c"]);
    let steps = [
        Step::Hang("c"),
        Step::Answer(Described::orders(&["a", "c"])),
        Step::Answer(Described::orders(&["a"])),
    ];
    let before = Described::orders(&["a", "b", "c"]);
    Load::orders(world, 6, others).goes_on(&before, &steps, witness);
}

/// Makes a topic of two partitions on `a` and on `others`, with ten records on each of these; says how many
/// records that are.
fn orders_on_all<B: Brokers + 'static>(world: &World<B>, others: &[&str]) -> u64 {
    world.brokers.create_topic("a", "orders", 2);
    let mut written = 0;
    for cluster in others {
        world.brokers.create_topic(cluster, "orders", 2);
        let numbers = OTHERS + written..OTHERS + written + 10;
        world.write(cluster, "orders", 2, numbers);
        written += 10;
    }
    written
}

/// A change of what partition 0 of the load has nothing to do with.
enum Step {
    /// The metadata service answers so.
    Answer(Described),
    /// Partition 1 of `a` is given to the other one of two workers.
    Move,
    /// A cluster of this name hangs.
    Hang(&'static str),
}

/// A steady load on partition 0 of a topic of `a`, and how many records come from elsewhere.
struct Load<'a, B> {
    world: &'a World<B>,
    topic: &'static str,
    /// How many splits there are before the changes.
    splits: usize,
    others: u64,
}

impl<'a, B: Brokers + 'static> Load<'a, B> {
    fn orders(world: &'a World<B>, splits: usize, others: u64) -> Self {
        Self {
            world,
            topic: "orders",
            splits,
            others,
        }
    }

    /// Reads with and without changes, prints the longest pauses, and asserts what must be true.
    fn goes_on(&self, before: &Described, steps: &[Step], mut witness: impl Witness<B>) {
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
        let assigned = self.assigned(&run);
        assert!(assigned > 0, "the story tells of assignments");

        witness.before(&world.brokers);
        let with = self.pause_during(&run, || {
            let mut epoch = 1;
            for step in steps {
                match step {
                    Step::Answer(described) => {
                        world.publish(described);
                        epoch += 1;
                        run.await_epoch(epoch);
                    }
                    Step::Move => self.move_other(&run),
                    Step::Hang(cluster) => world.brokers.hang(cluster),
                }
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
        assert_eq!(self.assigned(&run), assigned, "it is assigned once");
        assert!(with < PAUSE_MAX, "{with:?}");
        let all = (0..written).chain(OTHERS..OTHERS + self.others);
        run.end().with(|state| assert_exact(state, all));
    }

    /// The name of a partition of the topic, as the story has it.
    fn split(&self, partition: i32) -> KafkaSplit {
        let cluster = ClusterId::new("a").expect("it is a name");
        let topic = TopicName::new(self.topic).expect("it is a name");
        KafkaSplit::new(cluster, topic, Partition(partition))
    }

    /// How often partition 0 was assigned.
    fn assigned(&self, run: &Run) -> usize {
        let assigned = format!("split {}: assigned to worker ", self.split(0));
        run.observed.with(|state| {
            let lines = state.told.iter();
            lines
                .filter(|(_, line)| line.starts_with(&assigned))
                .count()
        })
    }

    /// Gives partition 1 to the other worker, and waits until it has it.
    fn move_other(&self, run: &Run) {
        let split = self.split(1);
        let name = format!("split {split}");
        let owner = |state: &State| state.owners().get(name.as_str()).map(|&one| one.to_owned());
        let before = run.observed.with(owner);
        let other = usize::from(before.as_deref() == Some("0"));
        run.control().move_split(split, ReaderId(other));
        run.wait("the other partition has moved", |state| {
            owner(state) == Some(other.to_string())
        });
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
