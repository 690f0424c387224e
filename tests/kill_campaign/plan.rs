//! What happens in one round, drawn from its seed.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timely_splits::kill_point::KillPoint;

use crate::random::Random;

/// How long a life lasts at most before it is killed from outside, its start included.
const LIFE_MOST: u64 = 2_600;

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

/// All lives of one round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) lives: Vec<Life>,
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
        Self { seed, lives }
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
