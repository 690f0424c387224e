//! A split that is moved to and fro between two workers, through the dataflow.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::{Exchange, Inspect, Probe};
use timely::{CommunicationConfig, Config, WorkerConfig};
use timely_splits::assignor::StickyBalanced;
use timely_splits::control::SourceControl;
use timely_splits::coordinator::CoordinatorOptions;
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit, SplitDiscovery};
use timely_splits::enumerator::Enumeration;
use timely_splits::epoch::{MetadataEpoch, ReaderId, SplitEpoch};
use timely_splits::fetcher::{Fetched, Piece, Polled, SplitFetcher, cut_rows};
use timely_splits::log::MemoryLog;
use timely_splits::source::{Reading, SourceOptions, read_splits};
use timely_splits::tick::TimeMap;
use timely_splits::wake::Waker;

use crate::topics::{Part, Topics};
use crate::{Figure, percentile};

const PARTS: u32 = 64;
const MOVED: Part = Part { topic: 0, part: 0 };
const MOVES: usize = 2_000;
const WARM_UP: usize = 100;
/// Set in the second process: the addresses of both, with a comma.
const ADDRESSES: &str = "TIMELY_SPLITS_BENCH_ADDRESSES";

/// A split was assigned: when, since the Unix epoch.
type Row = (Part, Duration);

/// Runs the second process, if this is one.
pub(crate) fn join() -> bool {
    let Ok(addresses) = env::var(ADDRESSES) else {
        return false;
    };
    let addresses = addresses.split(',').map(str::to_owned).collect();
    run(cluster(1, addresses));
    true
}

pub(crate) fn measure(report: &mut impl FnMut(Figure)) {
    report(figure(1, run(Config::process(2))));
    let addresses = free_addresses();
    let mut other = second_process(&addresses);
    report(figure(2, run(cluster(0, addresses))));
    let status = other.wait().expect("the second process was started");
    assert!(status.success(), "the second process failed: {status}");
}

fn free_addresses() -> Vec<String> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are ports left");
    // Both are bound at once, so that they differ.
    let listeners = [listen(), listen()];
    let address = |listener: &TcpListener| listener.local_addr().expect("it is bound").to_string();
    listeners.iter().map(address).collect()
}

fn second_process(addresses: &[String]) -> Child {
    let program = env::current_exe().expect("a process knows its program");
    let mut command = Command::new(program);
    command.env(ADDRESSES, addresses.join(","));
    command.spawn().expect("a process can be started")
}

fn cluster(process: usize, addresses: Vec<String>) -> Config {
    Config {
        communication: CommunicationConfig::Cluster {
            threads: 1,
            process,
            addresses,
            report: false,
            zerocopy: false,
        },
        worker: WorkerConfig::default(),
    }
}

/// What worker 0 saw: how long each move took, from the request until the other fetcher was given
/// the split, and how often every split was assigned.
#[derive(Default)]
struct Seen {
    times: Vec<Duration>,
    assignments: BTreeMap<Part, u64>,
}

fn figure(processes: u64, mut seen: Seen) -> Figure {
    let besides = seen.assignments.iter().filter(|(part, _)| **part != MOVED);
    let disturbed = besides.map(|(_, count)| count - 1).sum();
    let mut times = seen.times.split_off(WARM_UP);
    Figure {
        what: "asked, revoked, released, assigned",
        of: vec![
            ("processes", processes),
            ("moves", times.len() as u64),
            ("unmoved_splits", seen.assignments.len() as u64 - 1),
            ("unmoved_paused", disturbed),
        ],
        micros: vec![
            ("p50", percentile(&mut times, 50)),
            ("p99", percentile(&mut times, 99)),
            ("most", percentile(&mut times, 100)),
        ],
        bound: None,
    }
}

/// Runs the dataflow; says what worker 0 saw, if it is in this process.
fn run(config: Config) -> Seen {
    let guards = timely::execute(config, |worker| {
        let index = worker.index();
        let control = SourceControl::new();
        let probe = ProbeHandle::new();
        let rows: Rc<RefCell<Vec<Row>>> = Rc::default();
        let arrived = Rc::clone(&rows);
        worker.dataflow::<u64, _, _>(|scope| {
            let mut source = SourceOptions::new("parts", TimeMap::identity());
            source.control = control.clone();
            let reading = Reading {
                fetcher: Box::new(Announcer::new),
                admission: None,
            };
            let streams = read_splits(scope, &source, (index == 0).then(enumeration), reading);
            streams
                .batches
                .exchange(|_| 0)
                .inspect(move |row| arrived.borrow_mut().push(*row))
                .probe_with(&probe);
        });
        let mut mover = Mover::new(control);
        while !probe.done() {
            worker.step_or_park(Some(Duration::from_millis(100)));
            for row in rows.borrow_mut().drain(..) {
                mover.see(row);
            }
        }
        mover.seen
    })
    .expect("workers start");
    let mut seen = guards
        .join()
        .into_iter()
        .map(|seen| seen.expect("a worker ended well"));
    seen.next().expect("there is a worker")
}

/// Asks for one move after the other.
struct Mover {
    control: SourceControl<Part>,
    seen: Seen,
    asked: Option<Duration>,
}

impl Mover {
    fn new(control: SourceControl<Part>) -> Self {
        Self {
            control,
            seen: Seen::default(),
            asked: None,
        }
    }

    fn see(&mut self, (part, assigned): Row) {
        *self.seen.assignments.entry(part).or_default() += 1;
        if let Some(asked) = self.asked.take_if(|_| part == MOVED) {
            self.seen.times.push(assigned.saturating_sub(asked));
        }
        if self.asked.is_some() || self.seen.assignments.len() < PARTS as usize {
            return;
        }
        if self.seen.times.len() == MOVES + WARM_UP {
            self.control.stop();
            return;
        }
        // Where it is from the first on: its first assignment is to reader 0.
        let to = ReaderId((self.seen.times.len() + 1) % 2);
        self.asked = Some(now());
        self.control.move_split(MOVED, to);
    }
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is after 1970")
}

fn enumeration() -> Enumeration<Part> {
    Enumeration {
        discovery: Box::new(|waker| Box::new(Once::new(waker))),
        log: Box::new(MemoryLog::new()),
        assignor: Box::new(StickyBalanced),
        coordination: CoordinatorOptions::new(0),
    }
}

/// Finds one topic.
struct Once {
    waker: Waker,
    answers: VecDeque<DiscoveryEvent<Part>>,
}

impl Once {
    fn new(waker: Waker) -> Self {
        let topics = Topics::of([(0, PARTS)]);
        Self {
            waker,
            answers: VecDeque::from([DiscoveryEvent::Metadata(topics)]),
        }
    }
}

impl SplitDiscovery<Part> for Once {
    fn request(&mut self, request: DiscoveryRequest<Part>) {
        self.answers.push_back(match request {
            DiscoveryRequest::Discover { epoch, metadata } => {
                let parts = metadata.parts().into_iter();
                let splits = parts.map(|split| FoundSplit::new(split, ())).collect();
                DiscoveryEvent::Found { epoch, splits }
            }
            DiscoveryRequest::Identify { .. }
            | DiscoveryRequest::Judge { .. }
            | DiscoveryRequest::End { .. } => {
                unreachable!("no identity is asked for, and nothing is lost or drained")
            }
            DiscoveryRequest::Check { request, .. } => DiscoveryEvent::Checked {
                request,
                lost: Vec::new(),
            },
            DiscoveryRequest::Resolve { request, split, .. } => DiscoveryEvent::Resolved {
                request,
                split,
                start: 0,
                stop: None,
                rule: "earliest".to_owned(),
            },
        });
        self.waker.wake();
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<Part>> {
        self.answers.pop_front()
    }
}

/// Brings one row of each assignment: that it was made, and when.
struct Announcer {
    waker: Waker,
    announced: Vec<Fetched<Part, Vec<Row>>>,
}

impl Announcer {
    fn new(waker: Waker) -> Self {
        let announced = Vec::new();
        Self { waker, announced }
    }
}

impl SplitFetcher<Part> for Announcer {
    type Batch = Vec<Row>;

    fn adopt(&mut self, _epoch: MetadataEpoch, _metadata: &Topics) {}

    fn assign(&mut self, split: &Part, split_epoch: SplitEpoch, start: &u64) {
        self.announced.push(Fetched::Piece(Piece {
            split: *split,
            split_epoch,
            start: *start,
            end: *start + 1,
            bytes: size_of::<Row>(),
            batch: Some(vec![(*split, now())]),
        }));
        self.waker.wake();
    }

    fn unassign(&mut self, _split: &Part, _split_epoch: SplitEpoch) {}

    fn cut(&mut self, batch: Vec<Row>, at: &[u64]) -> Vec<Option<Vec<Row>>> {
        cut_rows(batch, at, |_| 0)
    }

    fn poll(&mut self, bytes_max: usize, fetched: &mut Vec<Fetched<Part, Vec<Row>>>) -> Polled {
        if bytes_max > 0 {
            fetched.append(&mut self.announced);
        }
        Polled::Drained
    }
}
