//! Tells what happens in a source, as `tracing` events that a person can follow.
//!
//! At `info` are the changes that a person made or has to know of, at `debug` what the source does
//! about them split by split, at `trace` every tick.

use std::sync::{Mutex, PoisonError};

use timely_splits::binding::SplitError;
use timely_splits::epoch::ReaderId;
use timely_splits::event::{Observer, SourceEvent};
use timely_splits::health::{FailureKind, Health, HealthStatus};
use timely_splits::protocol::ReleaseReason;

use super::OnFailure;
use crate::execute::source_failed;
use crate::model::{KafkaSplit, MetadataChange, StreamsMetadata};

/// An observer that tells the story of one worker, and then tells the user's; the process may end after
/// that.
pub(super) fn observer(
    worker: usize,
    users: Option<Observer<KafkaSplit>>,
    on_failure: OnFailure,
) -> Observer<KafkaSplit> {
    // Told by worker 0 alone, and one epoch after the other.
    let in_force = Mutex::new(None);
    Observer::new(move |event| {
        tell(worker, event);
        if let SourceEvent::MetadataAdopted { epoch, metadata } = event {
            let mut in_force = in_force.lock().unwrap_or_else(PoisonError::into_inner);
            // A difference takes a look at every topic, and this is a worker's thread.
            if let Some(before) = in_force.replace(metadata.clone())
                && tracing::enabled!(tracing::Level::INFO)
            {
                for line in MetadataChange::between(&before, metadata)
                    .to_string()
                    .lines()
                {
                    tracing::info!("metadata epoch {epoch}: {line}");
                }
            }
        }
        if let Some(users) = &users {
            users.hear(event);
        }
        if let SourceEvent::Failed { why } = event
            && on_failure == OnFailure::EndProcess
        {
            source_failed(why);
        }
    })
}

fn tell(worker: usize, event: &SourceEvent<KafkaSplit>) {
    match event {
        SourceEvent::Started { readers } => {
            tracing::info!("reading on {}", counted(*readers, "worker"));
        }
        SourceEvent::MetadataAdopted { epoch, metadata } => {
            tracing::info!("metadata epoch {epoch}: {}", Streams(metadata));
        }
        SourceEvent::Planned {
            epoch,
            assigned,
            revoked,
        } => tracing::debug!(
            "plan {epoch}: {} assigned, {revoked} asked back",
            counted(*assigned, "split")
        ),
        SourceEvent::Assigned {
            split,
            reader,
            split_epoch,
            start,
        } => tracing::debug!(
            "split {split}: assigned to worker {reader} at {start}, for the {} time",
            ordinal(split_epoch.0)
        ),
        SourceEvent::SplitHot {
            split,
            bytes_per_second,
        } => tracing::warn!(
            "split {split}: brings {bytes_per_second} bytes a second; moving splits cannot help it"
        ),
        SourceEvent::PlanShown { moves } => tracing::info!("plan: {}", Moves(moves)),
        SourceEvent::Released {
            split,
            reader,
            next,
            why,
        } => {
            let why = in_words(*why);
            tracing::debug!("split {split}: released by worker {reader} at {next}, {why}");
        }
        SourceEvent::FetcherDown {
            split,
            reader,
            kind,
            message,
        } => tell_down(split, *reader, *kind, message),
        SourceEvent::SplitLost { error, count } => tell_loss(error, *count),
        SourceEvent::Bound { tick, splits } => {
            tracing::trace!("tick {tick}: over, {} moved", counted(*splits, "split"));
        }
        SourceEvent::Health(health) => tell_health(worker, health),
        SourceEvent::Failed { why } => tracing::error!("the source goes no further: {why}"),
        SourceEvent::Ended => tracing::info!("the last tick is durable: the source has ended"),
        other => tell_life(other),
    }
}

/// Tells what becomes of splits that nobody has.
fn tell_life(event: &SourceEvent<KafkaSplit>) {
    match event {
        SourceEvent::SplitFound { split } => tracing::debug!("split {split}: found"),
        SourceEvent::SplitResolved {
            split,
            start,
            stop,
            rule,
        } => match stop {
            None => tracing::debug!("split {split}: starts at {start}, by the rule: {rule}"),
            Some(stop) => tracing::debug!(
                "split {split}: starts at {start} and stops at {stop}, by the rules: {rule}"
            ),
        },
        SourceEvent::SplitFinished { split, position } => {
            tracing::debug!("split {split}: finished at {position}");
        }
        SourceEvent::DrainBegun { epoch, splits } => tracing::info!(
            "metadata {epoch} is in force until what the last answer removes is read to its end: {}",
            counted(*splits, "split")
        ),
        SourceEvent::SplitLeaves { split, end } => {
            tracing::debug!("split {split}: leaves, and ends at {end}");
        }
        SourceEvent::DrainEnded { splits, cut } => tracing::info!(
            "what was removed is read to its end, but for {cut} of {}; the last answer is in force",
            counted(*splits, "split")
        ),
        SourceEvent::AllFound { splits } => {
            tracing::info!("{} in all; none is added", counted(*splits, "split"));
        }
        SourceEvent::SplitGone { split } => {
            tracing::warn!("split {split}: does not exist any more; its position is kept");
        }
        SourceEvent::SplitForgotten { split, position } => {
            tracing::warn!("split {split}: its position {position} is not kept any longer");
        }
        _ => {}
    }
}

fn in_words(why: ReleaseReason) -> &'static str {
    match why {
        ReleaseReason::Revoked => "to be moved",
        ReleaseReason::NotListed => "since the metadata does not list it; kept",
        ReleaseReason::Finished => "since it stops there",
    }
}

fn tell_down(split: &KafkaSplit, reader: ReaderId, kind: FailureKind, message: &str) {
    match kind {
        FailureKind::Transient => {
            tracing::warn!("split {split}: worker {reader} tries again: {message}");
        }
        FailureKind::Definite => {
            tracing::error!("split {split}: worker {reader} stopped reading it: {message}");
        }
    }
}

fn tell_loss(error: &SplitError<KafkaSplit>, count: u64) {
    let SplitError { split, message, .. } = error;
    tracing::warn!("split {split}: {message}; that is loss {count} of this run");
}

fn tell_health(worker: usize, health: &Health) {
    match health.status {
        HealthStatus::Well => tracing::info!(worker, "{health}"),
        HealthStatus::Waiting | HealthStatus::Failing(FailureKind::Transient) => {
            tracing::warn!(worker, "{health}");
        }
        HealthStatus::Failing(FailureKind::Definite) => tracing::error!(worker, "{health}"),
    }
}

/// Shows which topics of which clusters each stream consists of.
struct Streams<'a>(&'a StreamsMetadata);

impl std::fmt::Display for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.streams.is_empty() {
            return f.write_str("no stream");
        }
        let streams = self.0.streams.iter().map(|(stream, described)| {
            let clusters = described.clusters.iter().map(|(cluster, read)| {
                let topics: Vec<_> = read.topics.iter().map(ToString::to_string).collect();
                format!("{cluster}[{}]", topics.join(", "))
            });
            let clusters: Vec<_> = clusters.collect();
            format!("{stream} = {}", clusters.join(" + "))
        });
        f.write_str(&streams.collect::<Vec<_>>().join("; "))
    }
}

/// Shows which splits the assignor would move.
struct Moves<'a>(&'a [(KafkaSplit, Option<ReaderId>, ReaderId)]);

impl std::fmt::Display for Moves<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("every split stays where it is");
        }
        let said = self.0.iter().map(|(split, from, to)| match from {
            Some(from) => format!("{split} from worker {from} to {to}"),
            None => format!("{split} to worker {to}"),
        });
        f.write_str(&said.collect::<Vec<_>>().join(", "))
    }
}

/// `1 split`, `2 splits` ...
fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// `1st`, `2nd`, `3rd`, `4th` ...
fn ordinal(number: u64) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_read_as_english() {
        let said: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).into();

        assert_eq!(
            said,
            [
                "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"
            ]
        );
    }
}
