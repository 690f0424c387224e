//! What goes wrong in one simulated source, and when.

use std::time::Duration;

use timely_splits::epoch::ReaderId;
use timely_splits::fetcher::DownCause;
use timely_splits::health::FailureKind;
use timely_splits::loss::LossCause;
use timely_splits::protocol::Command;

use crate::forest::{Forest, Leaf};
use crate::random::Random;
use crate::swarm::Swarm;

/// One thing that happens to a source, or goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Records are written to a leaf.
    Write(Leaf, u64),
    /// So many of the oldest records of a leaf are deleted.
    Delete(Leaf, u64),
    /// Another tree takes the place of one; its leaves have so many records.
    Replace(char, u64),
    /// The metadata changes, and the service says so.
    Change(Forest),
    /// The metadata service says what is not so.
    Lie(Forest),
    /// The metadata service says what is so, again.
    Repeat,
    /// The metadata service fails.
    Mute,
    /// A tree grows a leaf, or has it again.
    Grow(Leaf),
    /// A leaf does not exist any more.
    Wither(Leaf),
    /// The discovery says of a leaf that it does not exist, although it does.
    Overlook(Leaf),
    /// Questions where leaves start are not answered for a time.
    LoseStarts(Duration),
    /// What the fetcher of a reader brings comes after this time.
    Hang(usize, Duration),
    /// The fetcher of whoever has the leaf stops reading it.
    Break(Leaf, DownCause<u64>),
    /// The fetcher of whoever has the leaf leaves out a record.
    Skip(Leaf),
    /// The fetcher of whoever has the leaf brings records again.
    Again(Leaf, u64),
    /// A worker does nothing for a time.
    Stall(usize, Duration),
    /// The log does not answer for a time.
    SlowLog(Duration),
    /// Another run has taken over the log.
    LoseLog,
    /// The log is compacted to a snapshot.
    Compact,
    /// Somebody asks for something, near a reader.
    Ask(usize, Command<Leaf>),
    /// The enumerator's clock is set, by so many milliseconds.
    Clock(i64),
    /// All processes end, and others begin after a time.
    Crash {
        /// How many readers begin.
        readers: usize,
        /// After which time.
        down: Duration,
        /// Whether what was being appended was appended.
        written: bool,
    },
}

/// The kinds of faults, as many as [`fault`] knows.
const KINDS: usize = 24;

/// What happens under `seed`, and when, in order.
pub(crate) fn script(seed: u64, swarm: &Swarm) -> Vec<(Duration, Fault)> {
    let mut random = Random::of(seed, 3);
    let kinds: Vec<usize> = (0..KINDS).filter(|_| random.chance(50)).collect();
    let mut script: Vec<_> = (0..swarm.faults)
        .map(|_| {
            let millis = u64::try_from(swarm.trouble.as_millis()).expect("short");
            let at = Duration::from_millis(random.below(millis));
            // Without records nothing can be lost.
            let kind = if kinds.is_empty() || random.chance(30) {
                0
            } else {
                random.pick(&kinds)
            };
            (at, fault(kind, &mut random, swarm))
        })
        .collect();
    script.sort_by_key(|(at, _)| *at);
    script
}

fn fault(kind: usize, random: &mut Random, swarm: &Swarm) -> Fault {
    let reader = random.index(swarm.readers);
    let for_a_while = Duration::from_millis(random.pick(&[20, 200, 1_500]));
    match kind {
        0 => Fault::Write(leaf(random, swarm), 1 + random.below(9)),
        1 | 2 => Fault::Change(forest(random, swarm)),
        3 => Fault::Lie(forest(random, swarm)),
        4 if random.chance(50) => Fault::Repeat,
        4 => Fault::Mute,
        5 => Fault::Grow(Leaf::new(
            tree(random, swarm),
            leaf_number(random, swarm) + 1,
        )),
        6 => Fault::Wither(leaf(random, swarm)),
        7 => Fault::Overlook(leaf(random, swarm)),
        8 => Fault::LoseStarts(for_a_while),
        9 => Fault::Hang(reader, for_a_while),
        10 | 11 => Fault::Break(leaf(random, swarm), cause(random)),
        12 => Fault::Skip(leaf(random, swarm)),
        13 => Fault::Again(leaf(random, swarm), 1 + random.below(6)),
        14 => Fault::Stall(reader, for_a_while),
        15 => Fault::SlowLog(for_a_while),
        16 if random.chance(40) => Fault::LoseLog,
        16 => Fault::Compact,
        17 => Fault::Ask(reader, command(random, swarm)),
        18 => {
            let millis = random.pick(&[-700, -30, 40, 900, 15_000]);
            Fault::Clock(millis)
        }
        20 | 21 => Fault::Delete(leaf(random, swarm), 1 + random.below(12)),
        22 | 23 => Fault::Replace(tree(random, swarm), random.below(20)),
        _ => Fault::Crash {
            readers: 1 + random.index(4),
            down: Duration::from_millis(random.below(300)),
            written: random.chance(50),
        },
    }
}

fn tree(random: &mut Random, swarm: &Swarm) -> char {
    char::from(b'a' + u8::try_from(random.below(swarm.trees)).expect("few trees"))
}

fn leaf_number(random: &mut Random, swarm: &Swarm) -> u16 {
    u16::try_from(random.below(swarm.leaves)).expect("few leaves")
}

fn leaf(random: &mut Random, swarm: &Swarm) -> Leaf {
    Leaf::new(tree(random, swarm), leaf_number(random, swarm))
}

fn forest(random: &mut Random, swarm: &Swarm) -> Forest {
    let mut trees = Forest::of("");
    for tree in 0..swarm.trees {
        if random.chance(60) {
            let tree = char::from(b'a' + u8::try_from(tree).expect("few trees"));
            let path = random.pick(&[0, 0, 1]) + swarm.drains;
            trees.0.insert(tree, path);
        }
    }
    trees
}

fn cause(random: &mut Random) -> DownCause<u64> {
    random.pick(&[
        DownCause::Failed(FailureKind::Transient),
        DownCause::Failed(FailureKind::Definite),
        DownCause::Crashed,
        DownCause::Crashed,
        DownCause::Lost(LossCause::OutOfRange),
        DownCause::Lost(LossCause::Truncated(None)),
    ])
}

fn command(random: &mut Random, swarm: &Swarm) -> Command<Leaf> {
    let split = leaf(random, swarm);
    let reader = ReaderId(random.index(swarm.readers));
    match random.below(14) {
        0..3 => Command::Move { split, to: reader },
        3 => Command::Drain(reader),
        4 => Command::Refill(reader),
        5 | 6 => Command::Pause(split),
        7 => Command::Resume(split),
        8 | 9 => Command::Readmit(split),
        10 => Command::Rebalance,
        11 if swarm.drains > 0 => Command::ConfirmMetadata,
        11 => Command::ShowPlan,
        _ => Command::Stop,
    }
}
