//! A violation, told so that a person can follow it.

use timely_splits::protocol::{Directive, Report};

use crate::explore::each;
use crate::hash::fingerprint;
use crate::letters::Letter;
use crate::step::Step;
use crate::world::{Model, World};

/// Tells the way along `path`, which starts at one of `roots`, and the step after it, if it takes one.
pub(crate) fn tell(
    model: &Model,
    roots: &[World],
    path: &[u64],
    last: Option<Step>,
) -> Vec<String> {
    let root = roots.iter().find(|root| fingerprint(root) == path[0]);
    let mut world = root.expect("a path starts at a root").clone();
    let holders: Vec<_> = (world.readers.iter())
        .flat_map(|reader| {
            reader
                .fetching
                .keys()
                .map(|split| format!("{split} to reader {}", reader.id))
        })
        .collect();
    let mut story = vec![format!(
        "everybody starts; assigned are {}",
        holders.join(", ")
    )];
    for target in &path[1..] {
        let (step, next) = between(&world, model, *target);
        story.push(line(step, &world));
        world = next;
    }
    story.push(match last {
        Some(step) => line(step, &world),
        None => "nothing else has to happen".to_owned(),
    });
    story
}

/// The step from `world` to the state with the fingerprint `target`.
fn between(world: &World, model: &Model, target: u64) -> (Step, World) {
    for step in world.possible(model) {
        let mut found = None;
        let outcome = each(world, step, |next| {
            if fingerprint(&next) == target {
                found = Some(next);
            }
            found.is_none()
        });
        // A violation that this step can also lead to is not the one that is told.
        outcome.ok();
        if let Some(next) = found {
            return (step, next);
        }
    }
    panic!("a path goes from state to state");
}

fn line(step: Step, world: &World) -> String {
    match step {
        Step::Direct(index) => match world.readers[index].directives.front() {
            Some(one) => format!("reader {index} hears: {}", directive(one)),
            None => format!("reader {index} hears nothing"),
        },
        Step::Overtake(index) => format!("metadata overtakes an assignment to reader {index}"),
        Step::Report(index) => match world.readers[index].reports.front() {
            Some(one) => format!("coordinator hears from reader {index}: {}", report(one)),
            None => format!("coordinator hears nothing from reader {index}"),
        },
        Step::Resolve(_) => "discovery says where a split starts".to_owned(),
        Step::Log => format!(
            "log answers: {} records are durable",
            world.appending.as_ref().map_or(0, |records| records.len())
        ),
        Step::Read(index, split) => {
            format!("reader {index} gets {split} {}", piece(world, index, split))
        }
        Step::Fetch(index, split) => format!(
            "reader {index}'s fetcher has {split} {} in hand",
            piece(world, index, split)
        ),
        Step::Late(index) => format!(
            "reader {index} gets a late piece, {:?}",
            world.readers[index].late.front()
        ),
        Step::Hold(index, split) => format!(
            "reader {index} holds back {split} {}",
            piece(world, index, split)
        ),
        Step::Admit(index, split) => format!("reader {index} admits what it held back of {split}"),
        Step::Down(index, split, kind) => {
            format!("reader {index}'s fetcher stops reading {split}: {kind:?}")
        }
        Step::Retry(index) => format!("reader {index} tries again"),
        Step::Tick => format!(
            "the open tick {:?} is due",
            world.coordinator.open_tick().map(|tick| tick.0)
        ),
        Step::Wait => "so much time passes that a release is late".to_owned(),
        Step::Remove(split) => format!("metadata does not list {split} any more"),
        Step::Add(split) => format!("metadata lists {split} again"),
        Step::Inform => format!("metadata service answers: {:?}", world.metadata),
        Step::Fail => "metadata service fails".to_owned(),
        Step::Move(split, to) => format!("{split} is to move to reader {to}"),
        Step::Readmit(split) => format!("{split} is readmitted"),
        Step::Stop => "the end is asked for".to_owned(),
        Step::Crash { written: true } => {
            "crash; the append under way was written; restart".to_owned()
        }
        Step::Crash { written: false } => "crash; restart".to_owned(),
    }
}

fn piece(world: &World, index: usize, split: Letter) -> String {
    match world.readers[index].fetching.get(&split) {
        Some(fetching) => format!("{}..{}", fetching.next, fetching.next + 1),
        None => "without reading it".to_owned(),
    }
}

fn directive(directive: &Directive<Letter>) -> String {
    match directive {
        Directive::Metadata {
            epoch, metadata, ..
        } => format!("metadata epoch {epoch} lists {:?}", metadata.0),
        Directive::Assign(one) => format!(
            "read {} from {} under split epoch {}",
            one.split, one.start, one.split_epoch
        ),
        Directive::Revoke { split, split_epoch } => {
            format!("release {split}, split epoch {split_epoch}")
        }
        Directive::Tick { close, open, last } => {
            let close = close.map(|tick| tick.0);
            format!(
                "close tick {close:?}, open {open}{}",
                if *last {
                    ", which is not used: it was the last"
                } else {
                    ""
                }
            )
        }
        Directive::Durable(tick) => format!("tick {tick} is durable"),
        Directive::Emit(_)
        | Directive::BeginReplay(_)
        | Directive::Replay(_)
        | Directive::Explained(_) => format!("{directive:?}"),
        Directive::Prepare(split) => format!("{split} may come"),
        Directive::Reject { reason } => format!("rejected: {reason}"),
    }
}

fn report(report: &Report<Letter>) -> String {
    match report {
        Report::Released {
            split,
            split_epoch,
            next,
            why,
            ..
        } => format!("{split} of split epoch {split_epoch} released at {next}, {why:?}"),
        Report::Closed { tick, moved, .. } => {
            let moved = moved
                .iter()
                .map(|one| format!("{} {}..{}", one.range.split, one.range.from, one.range.to));
            format!("closed tick {tick} with {:?}", moved.collect::<Vec<_>>())
        }
        Report::FetcherDown {
            split, kind, next, ..
        } => format!("fetcher of {split} down at {next}, {kind:?}"),
        Report::Lost { split, next, .. } => format!("{split} is lost at {next}"),
        Report::Replayed { .. }
        | Report::Hello { .. }
        | Report::Progress { .. }
        | Report::Prepared { .. }
        | Report::Full { .. }
        | Report::Command(_) => format!("{report:?}"),
    }
}
