//! Histories nobody thought of: clusters and topics come and go, brokers and the metadata service
//! fail, and the source is ended and started again with other workers.
//!
//! The model is short. What came out of a partition, over all runs, is a beginning of what was written
//! to it, in order and once; if it is listed at the end and its cluster is up, all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt;

use libtest_mimic::Trial;
use timely_kafka::embedded::EmbeddedFault;

use crate::random::Random;
use crate::scenario::{
    Backend, Brokers, Described, Embedded, Plan, Run, State, World, assert_exact,
};

/// How many histories run unless `TIMELY_KAFKA_HISTORIES` says otherwise.
const HISTORIES: u64 = 16;

const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const TOPICS: [&str; 2] = ["orders", "audit"];
const PARTITIONS: i32 = 2;
const RUNS: usize = 3;
const STEPS: usize = 12;

pub(crate) fn trials() -> Vec<Trial> {
    let count = env::var("TIMELY_KAFKA_HISTORIES").map_or(HISTORIES, |count| {
        count.parse().expect("a count of histories")
    });
    let trial = |seed| {
        Trial::test(
            format!("a_random_history_is_exact::seed_{seed}"),
            move || {
                History::new(seed).play();
                Ok(())
            },
        )
    };
    (0..count).map(trial).collect()
}

/// A topic of a cluster.
type Topic = (&'static str, &'static str);

/// A topic of a cluster, and a partition of it.
type Partition = (Topic, i32);

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A topic is created; it may be listed already.
    Create(Topic),
    Write(Partition, u64),
    /// The metadata lists these topics and no others.
    List(BTreeSet<Topic>),
    /// The metadata service fails until it lists something again.
    Garble,
    Down(&'static str),
    Up(&'static str),
    /// So many answers to fetches are errors.
    FailFetches(&'static str, usize),
    /// Nothing, for so many milliseconds.
    Wait(u64),
}

struct History {
    seed: u64,
    random: Random,
    world: World<Embedded>,
    steps: Vec<Step>,
    created: BTreeSet<Topic>,
    down: BTreeSet<&'static str>,
    listed: BTreeSet<Topic>,
    /// The numbers of each partition, in order.
    written: BTreeMap<Partition, Vec<u64>>,
    /// What came out in the runs that are over.
    read: BTreeMap<Partition, Vec<u64>>,
    next: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Random::of(seed, 0),
            world: crate::world_of(&CLUSTERS),
            steps: Vec::new(),
            created: BTreeSet::new(),
            down: BTreeSet::new(),
            listed: BTreeSet::new(),
            written: BTreeMap::new(),
            read: BTreeMap::new(),
            next: 0,
        }
    }

    fn play(mut self) {
        let mut plan = self.world.plan();
        plan.log = Some(self.world.folder().join("log"));
        self.apply(Step::Create(("a", "orders")));
        self.apply(Step::List([("a", "orders")].into()));
        for number in 1..=RUNS {
            let run = self.start(&plan);
            for _ in 0..STEPS {
                let step = self.draw();
                if let Step::Wait(millis) = step {
                    run.let_ticks_pass(millis);
                }
                self.apply(step);
            }
            if number == RUNS {
                self.calm_down(&run);
            }
            self.end(run);
        }
        self.check();
    }

    fn start(&mut self, plan: &Plan) -> Run {
        let workers = 1 + self.random.index(4);
        self.world.run(plan, Backend::Threads(workers))
    }

    fn topic(&mut self) -> Topic {
        (self.random.pick(&CLUSTERS), self.random.pick(&TOPICS))
    }

    fn draw(&mut self) -> Step {
        let topic = self.topic();
        match self.random.below(100) {
            0..10 => Step::Create(topic),
            10..50 => {
                let created: Vec<_> = self.created.iter().copied().collect();
                let partition = i32::try_from(self.random.below(2)).expect("zero or one");
                let count = 1 + self.random.below(20);
                Step::Write((self.random.pick(&created), partition), count)
            }
            50..70 => Step::List(self.some_topics()),
            70..75 => Step::Garble,
            75..80 => Step::Down(topic.0),
            80..88 => Step::Up(topic.0),
            88..92 => Step::FailFetches(topic.0, 1 + self.random.index(3)),
            _ => Step::Wait(20 + self.random.below(100)),
        }
    }

    fn some_topics(&mut self) -> BTreeSet<Topic> {
        let all = CLUSTERS
            .into_iter()
            .flat_map(|cluster| TOPICS.map(|topic| (cluster, topic)));
        // Now and then nothing, and now and then everything.
        let percent = self.random.pick(&[0, 40, 60, 80, 100]);
        all.filter(|_| self.random.chance(percent)).collect()
    }

    /// Makes a step happen; what cannot happen does not.
    fn apply(&mut self, step: Step) {
        match &step {
            Step::Create(topic) => {
                if !self.down.contains(topic.0) && self.created.insert(*topic) {
                    self.world
                        .brokers
                        .create_topic(topic.0, topic.1, PARTITIONS);
                }
            }
            Step::Write((topic, partition), count) => {
                if !self.down.contains(topic.0) {
                    let numbers: Vec<u64> = (self.next..self.next + count).collect();
                    self.next += count;
                    let brokers = &self.world.brokers;
                    brokers.write(topic.0, topic.1, *partition, &numbers);
                    let written = self.written.entry((*topic, *partition)).or_default();
                    written.extend(numbers);
                }
            }
            Step::List(topics) => {
                self.listed.clone_from(topics);
                self.world.publish(&described(topics));
            }
            Step::Garble => self.world.publish_text("{ \"clusters\": "),
            Step::Down(cluster) => {
                if self.down.insert(cluster) {
                    self.world.brokers.cluster(cluster).broker_down().unwrap();
                }
            }
            Step::Up(cluster) => {
                if self.down.remove(cluster) {
                    self.world.brokers.cluster(cluster).broker_up().unwrap();
                }
            }
            Step::FailFetches(cluster, count) => {
                let fault = EmbeddedFault::NotLeader;
                self.world
                    .brokers
                    .cluster(cluster)
                    .fail_fetches(*count, fault);
            }
            Step::Wait(_) => {}
        }
        self.steps.push(step);
    }

    /// Brings all clusters up, lists what it will, and waits until all of that has come.
    fn calm_down(&mut self, run: &Run) {
        for cluster in CLUSTERS {
            self.apply(Step::Up(cluster));
        }
        let topics = self.some_topics();
        self.apply(Step::List(topics));
        run.wait(&format!("all that is listed has come: {self:?}"), |state| {
            let now = read_in(state);
            self.written.iter().all(|(partition, written)| {
                let count = |read: &BTreeMap<_, Vec<_>>| read.get(partition).map_or(0, Vec::len);
                !self.listed.contains(&partition.0)
                    || count(&self.read) + count(&now) >= written.len()
            })
        });
        let came = run.observed.with(|state| state.rows.len());
        run.settle(came);
    }

    /// Ends a run, which was exact in itself.
    fn end(&mut self, run: Run) {
        run.end().with(|state| {
            assert_exact(state, state.rows.iter().map(|row| row.number));
            for (partition, numbers) in read_in(state) {
                self.read.entry(partition).or_default().extend(numbers);
            }
        });
    }

    fn check(&self) {
        for (partition, read) in &self.read {
            let written = &self.written[partition];
            assert!(
                written.starts_with(read),
                "{partition:?}: {read:?} is no beginning of {written:?}: {self:?}"
            );
        }
    }
}

/// The numbers that came of each partition, in the order in which they came.
fn read_in(state: &State) -> BTreeMap<Partition, Vec<u64>> {
    let mut read: BTreeMap<Partition, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for row in &state.rows {
        let known = |name: &str, names: &[&'static str]| {
            let known = names.iter().find(|known| **known == name);
            *known.expect("only what is listed is read")
        };
        let topic = (
            known(row.split.cluster.as_str(), &CLUSTERS),
            known(row.split.topic.as_str(), &TOPICS),
        );
        let partition = (topic, row.split.partition.0);
        let rows = read.entry(partition).or_default();
        rows.push((row.tick, row.offset, row.number));
    }
    let in_order = |mut rows: Vec<(u64, u64, u64)>| {
        // Of a split that moved, one worker's rows can be seen before another's; ticks tell.
        rows.sort_by_key(|(tick, ..)| *tick);
        rows.into_iter().map(|(_, _, number)| number).collect()
    };
    read.into_iter()
        .map(|(partition, rows)| (partition, in_order(rows)))
        .collect()
}

fn described(topics: &BTreeSet<Topic>) -> Described {
    CLUSTERS
        .iter()
        .fold(Described::new(), |described, cluster| {
            let of_cluster: Vec<_> = topics
                .iter()
                .filter(|(of, _)| of == cluster)
                .map(|(_, topic)| *topic)
                .collect();
            match of_cluster.is_empty() {
                true => described,
                false => described.stream("orders", cluster, &of_cluster),
            }
        })
}

/// What is needed to see a history again, and what happened in it.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, steps {:?}", self.seed, self.steps)
    }
}
