//! What happens in one round, drawn from its seed.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timely_splits::kill_point::KillPoint;

use crate::random::Random;

/// How long a life lasts at most before it is killed from outside, its start included.
const LIFE_MOST: u64 = 2_600;

/// How long a point is waited for before the processes are killed from outside.
const POINT_WITHIN: Duration = Duration::from_millis(3_500);

/// After how many percent of the killed lives ticks are given again; after the last one they always are.
const REPLAYED_PERCENT: u64 = 20;

/// How many percent of the runs that replay are killed.
const REPLAY_KILLED_PERCENT: u64 = 40;

/// What ends a life of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All processes are killed from outside.
    All(Duration),
    /// One process is killed from outside; the others have to end by themselves.
    One(usize, Duration),
    /// One process kills itself at a point in its code, when it has come there so often.
    Point(usize, KillPoint, u64),
    /// It is asked to end, once everything is stored.
    Asked,
}

impl Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(_) => f.write_str("all"),
            Self::One(..) => f.write_str("one"),
            Self::Point(_, point, _) => write!(f, "point {point}"),
            Self::Asked => f.write_str("asked"),
        }
    }
}

/// What changes around the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Change {
    /// The metadata does not list one cluster any more.
    ClusterRemoved,
    /// It lists it again.
    ClusterAdded,
    /// It lists a further topic.
    TopicAdded,
    /// The metadata file is no metadata.
    MetadataBroken,
    /// The metadata file is gone.
    MetadataGone,
    /// The metadata file is back.
    MetadataBack,
    /// The broker of a cluster is killed, and started again.
    BrokerKilled,
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterRemoved => "a cluster is not listed any more",
            Self::ClusterAdded => "it is listed again",
            Self::TopicAdded => "a further topic is listed",
            Self::MetadataBroken => "the metadata file is no metadata",
            Self::MetadataGone => "the metadata file is gone",
            Self::MetadataBack => "the metadata file is back",
            Self::BrokerKilled => "a broker is killed and started again",
        })
    }
}

/// One life of the source, from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) processes: usize,
    /// Of each process.
    pub(crate) workers: usize,
    /// What happens meanwhile, at times after its start.
    pub(crate) changes: Vec<(Duration, Change)>,
    pub(crate) end: End,
}

impl Life {
    /// How long it lasts at most, until it ends or is made to.
    pub(crate) fn most(&self) -> Duration {
        match self.end {
            End::All(at) | End::One(_, at) => at,
            End::Point(..) => POINT_WITHIN,
            End::Asked => self.changes.last().map_or(Duration::ZERO, |(at, _)| *at),
        }
    }
}

/// Ticks that are given again, from a copy of the log, into a store of their own.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    /// Of a thousand of the ticks that could be given again so many are before the first.
    pub(crate) from: u64,
    /// All but the last are killed.
    pub(crate) lives: Vec<Life>,
    /// Whether a life after a killed one reads anew what is not stored, instead of giving it again.
    pub(crate) at: bool,
}

/// All lives of one round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) lives: Vec<Life>,
    /// After which lives ticks are given again.
    pub(crate) replays: BTreeMap<usize, Replay>,
}

impl Plan {
    /// The plan of a seed, for one or two processes.
    pub(crate) fn new(seed: u64, processes_most: usize) -> Self {
        let mut random = Random::of(seed, 0);
        // 2 -> 3 -> 1 -> 4 workers: two processes have them, where they can.
        let shapes = match processes_most {
            1 => [(1, 2), (1, 3), (1, 1), (1, 4)],
            _ => [(2, 1), (1, 3), (1, 1), (2, 2)],
        };
        let mut lives = Vec::new();
        let mut broker_killed = false;
        for (index, (processes, workers)) in shapes.into_iter().enumerate() {
            let last = index + 1 == shapes.len();
            let end = if last {
                End::Asked
            } else {
                end(&mut random, processes)
            };
            let mut changes = Vec::new();
            for _ in 0..random.below(3) {
                let change = change(&mut random);
                // Starting one takes the time of a life.
                if change != Change::BrokerKilled || !broker_killed {
                    broker_killed |= change == Change::BrokerKilled;
                    let at = Duration::from_millis(random.below(LIFE_MOST));
                    changes.push((at, change));
                }
            }
            changes.sort();
            lives.push(Life {
                processes,
                workers,
                changes,
                end,
            });
        }
        let replays = replays(seed, &lives);
        Self {
            seed,
            lives,
            replays,
        }
    }
}

fn replays(seed: u64, lives: &[Life]) -> BTreeMap<usize, Replay> {
    // Numbers of their own, so that the lives of a seed stay what they were.
    let mut random = Random::of(seed, 4);
    let processes_most = lives.iter().map(|life| life.processes).max().unwrap_or(1);
    let mut replays = BTreeMap::new();
    for (index, life) in lives.iter().enumerate() {
        if life.end == End::Asked || random.chance(REPLAYED_PERCENT) {
            replays.insert(index, replay(&mut random, life, processes_most));
        }
    }
    replays
}

/// A replay of what a life and those before it bound, on another number of workers than it had.
fn replay(random: &mut Random, before: &Life, processes_most: usize) -> Replay {
    let shapes = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2)];
    let mut last = before.processes * before.workers;
    let mut lives = Vec::new();
    let killed = random.chance(REPLAY_KILLED_PERCENT);
    for index in 0..=usize::from(killed) {
        let others: Vec<(usize, usize)> = shapes
            .into_iter()
            .filter(|(processes, workers)| {
                *processes <= processes_most && processes * workers != last
            })
            .collect();
        let (processes, workers) = random.pick(&others);
        last = processes * workers;
        let end = if killed && index == 0 {
            replay_end(random, processes)
        } else {
            End::Asked
        };
        lives.push(Life {
            processes,
            workers,
            changes: Vec::new(),
            end,
        });
    }
    Replay {
        from: random.below(1_000),
        lives,
        at: random.chance(50),
    }
}

fn replay_end(random: &mut Random, processes: usize) -> End {
    match random.below(6) {
        0 => End::All(Duration::from_millis(200 + random.below(1_000))),
        1 => {
            let points = [KillPoint::AppendTorn, KillPoint::AppendSynced];
            End::Point(0, random.pick(&points), 1 + random.below(3))
        }
        // A tick that is given again is emitted once a split.
        _ => End::Point(
            random.index(processes),
            KillPoint::Emitted,
            1 + random.below(40),
        ),
    }
}

fn end(random: &mut Random, processes: usize) -> End {
    // Some within the start, most when records flow.
    let at = Duration::from_millis(200 + random.below(LIFE_MOST - 200));
    match random.below(10) {
        0 | 1 => End::All(at),
        2 if processes > 1 => End::One(random.index(processes), at),
        2 => End::All(at),
        3 | 4 => End::Point(
            random.index(processes),
            KillPoint::Emitted,
            1 + random.below(60),
        ),
        5 => End::Point(0, KillPoint::Closed, 1 + random.below(40)),
        6 => End::Point(0, KillPoint::Revoked, 1 + random.below(8)),
        7 => End::Point(0, KillPoint::Released, 1 + random.below(8)),
        _ => {
            let point = random.pick(&[
                KillPoint::AppendBegun,
                KillPoint::AppendTorn,
                KillPoint::AppendWritten,
                KillPoint::AppendSynced,
            ]);
            End::Point(0, point, 1 + random.below(50))
        }
    }
}

fn change(random: &mut Random) -> Change {
    random.pick(&[
        Change::ClusterRemoved,
        Change::ClusterRemoved,
        Change::ClusterAdded,
        Change::ClusterAdded,
        Change::TopicAdded,
        Change::TopicAdded,
        Change::MetadataBroken,
        Change::MetadataGone,
        Change::MetadataBack,
        Change::BrokerKilled,
    ])
}
