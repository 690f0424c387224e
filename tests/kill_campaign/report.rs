//! The report of what rounds left.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::results::{Death, Outcome, Replayed};

const INTRODUCTION: &str = "\
# Kill campaign

Made by `scripts/kill-campaign --report` from what its rounds left. A round is a source on two real Kafka
clusters that lives four times, with 2, 3, 1 and 4 workers, and is killed three times, while records are
written, splits are moved and the metadata changes. Each restart is a new process with another number of
workers. After each life the store is compared with the log, and in the end with what was written: every
record is stored once, in the order of its split, at the tick that the log binds it to. At the end, and after
one in five of the other lives, a run with another number of workers gives ticks again from some tick on, from
a copy of the log into an empty store; two in five of those are killed as well. Each record has to have the
tick and the value that it had when its tick was final, and no other may be there.

";

/// The points inside an append.
const APPENDING: [&str; 4] = [
    "append-begun",
    "append-torn",
    "append-written",
    "append-synced",
];

/// The points between the emission of a record and the append of its tick.
const UNDURABLE: [&str; 2] = ["emitted", "closed"];

/// The points between the revocation of a split and its next assignment.
const UNASSIGNED: [&str; 2] = ["revoked", "released"];

/// The report of outcomes.
pub(crate) fn report(all: &[Outcome]) -> String {
    let outcomes: Vec<Outcome> = all
        .iter()
        .filter(|outcome| outcome.version > 0)
        .cloned()
        .collect();
    let outcomes = outcomes.as_slice();
    let good = outcomes.iter().filter(|outcome| outcome.is_good()).count();
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let deaths: Vec<&Death> = outcomes
        .iter()
        .flat_map(|outcome| &outcome.deaths)
        .collect();
    let fell = |points: &[&str]| {
        let at_one = |death: &&&Death| {
            points
                .iter()
                .any(|point| death.how == format!("point {point}"))
        };
        deaths.iter().filter(at_one).count()
    };
    let hours = Duration::from_millis(sum(|outcome| outcome.milliseconds)).as_secs_f64() / 3_600.0;
    let lines = [
        format!("rounds: {}, good: {good}", outcomes.len()),
        format!("kills, each with a restart from disk: {}", deaths.len()),
        format!(
            "after the emission of a record and before its tick was given to the log: {}",
            fell(&UNDURABLE)
        ),
        format!("inside an append: {}", fell(&APPENDING)),
        format!(
            "between the revocation of a split and its next assignment: {}",
            fell(&UNASSIGNED)
        ),
        format!(
            "records: {}; ticks with records, compared with the log: {}; hours: {hours:.1}",
            sum(|outcome| outcome.records),
            sum(|outcome| outcome.ticks as u64),
        ),
    ];
    let mut text = INTRODUCTION.to_owned();
    text.extend(lines.map(|line| format!("* {line}\n")));
    let earlier = all.len() - outcomes.len();
    if earlier > 0 {
        text +=
            &format!("* rounds that gave no ticks again, which are not counted here: {earlier}\n");
    }
    text += &replays(outcomes);
    text += &kinds(&deaths);
    text += &changes(outcomes);
    text += &campaigns(outcomes);
    text
}

/// What was given again: only what was as it had been is among the outcomes.
fn replays(outcomes: &[Outcome]) -> String {
    let replays: Vec<&Replayed> = outcomes
        .iter()
        .flat_map(|outcome| &outcome.replays)
        .collect();
    let sum = |of: fn(&Replayed) -> usize| replays.iter().map(|one| of(one)).sum::<usize>();
    let lines = [
        format!("replays: {}", replays.len()),
        format!(
            "ticks with records that were given again, and equal: {}; records: {}",
            sum(|one| one.ticks),
            sum(|one| one.records)
        ),
        format!(
            "kills of a run that replays: {}; gone on with by reading the rest anew: {}",
            sum(|one| one.deaths.len()),
            sum(|one| usize::from(one.anew))
        ),
    ];
    lines.map(|line| format!("* {line}\n")).concat()
}

fn kinds(deaths: &[&Death]) -> String {
    let mut kinds: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for death in deaths {
        kinds
            .entry(&death.how)
            .or_default()
            .push(death.milliseconds);
    }
    let mut text = "\n| killed | times | lived, median ms |\n| --- | --- | --- |\n".to_owned();
    for (kind, mut times) in kinds {
        times.sort_unstable();
        let median = times[times.len() / 2];
        text += &format!("| {kind} | {} | {median} |\n", times.len());
    }
    text
}

fn changes(outcomes: &[Outcome]) -> String {
    let mut changes: BTreeMap<String, u64> = BTreeMap::new();
    for change in outcomes.iter().flat_map(|outcome| &outcome.changes) {
        *changes.entry(change.to_string()).or_default() += 1;
    }
    let mut text = "\n| changed meanwhile | times |\n| --- | --- |\n".to_owned();
    for (change, times) in changes {
        text += &format!("| {change} | {times} |\n");
    }
    text
}

fn campaigns(outcomes: &[Outcome]) -> String {
    let mut campaigns: BTreeMap<(u32, u64, usize), (u64, u64)> = BTreeMap::new();
    for outcome in outcomes {
        let campaign = (outcome.version, outcome.campaign, outcome.processes);
        let (rounds, good) = campaigns.entry(campaign).or_default();
        *rounds += 1;
        *good += u64::from(outcome.is_good());
    }
    let mut text =
        "\n| version | campaign | processes | rounds | good |\n| --- | --- | --- | --- | --- |\n"
            .to_owned();
    for ((version, seed, processes), (rounds, good)) in campaigns {
        text += &format!("| {version} | seed {seed} | {processes} | {rounds} | {good} |\n");
    }
    text +=
        "\nVersion 2 is of a source that opens no tick before the log says which ticks are void.\n";
    for outcome in outcomes.iter().filter(|outcome| !outcome.is_good()) {
        text += &format!(
            "\nNot good: `scripts/kill-campaign --seed {} --round {} --processes {}`: {}\n",
            outcome.campaign, outcome.round, outcome.processes, outcome.verdict
        );
    }
    text
}
