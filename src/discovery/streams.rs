//! What a metadata service says, cut down to the subscribed streams.

use std::ops::ControlFlow;

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::health::HealthStatus;

use super::outlet::{Outlet, Unheard, Voice};
use crate::metadata::subscription::Selected;
use crate::metadata::thread::MetadataEvent;
use crate::metadata::{DidYouMean, Subscription};
use crate::model::words::some_of;
use crate::model::{SharedMetadata, StreamId, StreamsMetadata};

/// The subject of health about the metadata service.
const SERVICE: &str = "metadata service";

/// The subject of health about a subscription that selects nothing.
const SUBSCRIPTION: &str = "subscription";

/// Hands on what a metadata service says about the subscribed streams.
#[derive(Debug)]
pub(super) struct SubscribedStreams {
    subscription: Subscription,
    outlet: Outlet,
    voice: Voice,
    /// What is read by the latest answer.
    last: Option<SharedMetadata>,
    /// The subjects that are waited for by the latest answer.
    waiting: Vec<String>,
}

impl SubscribedStreams {
    pub(super) fn new(subscription: Subscription, outlet: Outlet) -> Self {
        Self {
            subscription,
            voice: Voice::new(outlet.clone()),
            outlet,
            last: None,
            waiting: Vec::new(),
        }
    }

    /// Hands on one event; `Break` when nobody takes them any more.
    pub(super) fn on_event(&mut self, event: MetadataEvent) -> ControlFlow<()> {
        match self.hand_on(event) {
            Ok(()) => ControlFlow::Continue(()),
            Err(Unheard) => ControlFlow::Break(()),
        }
    }

    fn hand_on(&mut self, event: MetadataEvent) -> Result<(), Unheard> {
        match event {
            MetadataEvent::Answered(metadata) => self.answered(&metadata),
            MetadataEvent::Repeated => self.outlet.send(DiscoveryEvent::MetadataRepeated),
            MetadataEvent::Settled => self.outlet.send(DiscoveryEvent::MetadataSettled),
            MetadataEvent::Failed { consecutive, error } => {
                // Each is logged; a person hears of a row of them once.
                tracing::debug!(consecutive, "metadata service: {error}");
                let status = HealthStatus::Failing(error.kind());
                let words = error.words();
                // Some errors name a file instead, which the subject does not.
                let message = words.strip_prefix("metadata service: ").unwrap_or(&words);
                self.voice.say(SERVICE, status, message)?;
                self.outlet.send(DiscoveryEvent::MetadataFailed)
            }
            MetadataEvent::Recovered => self.voice.well(SERVICE, "it answers again"),
        }
    }

    fn answered(&mut self, metadata: &StreamsMetadata) -> Result<(), Unheard> {
        let selected = self.subscription.select(metadata);
        let waited_for = waited_for(&selected);
        let shared = match &self.last {
            Some(last) => last.followed_by(selected.metadata),
            None => selected.metadata.into(),
        };
        self.last = Some(shared.clone());
        self.outlet.send(DiscoveryEvent::Metadata(shared))?;
        for subject in &self.waiting {
            if !waited_for.iter().any(|(waiting, _)| waiting == subject) {
                self.voice.well(subject, "the metadata describes it")?;
            }
        }
        for (subject, message) in &waited_for {
            self.voice.say(subject, HealthStatus::Waiting, message)?;
        }
        self.waiting = waited_for.into_iter().map(|(subject, _)| subject).collect();
        Ok(())
    }
}

/// What is subscribed and not there: each subject with its message.
fn waited_for(selected: &Selected) -> Vec<(String, String)> {
    let known = &selected.known;
    let described = if known.is_empty() {
        "no stream at all".to_owned()
    } else {
        some_of(known)
    };
    let mut waited_for: Vec<_> = selected
        .unknown
        .iter()
        .map(|unknown| {
            let nearest = DidYouMean(unknown.nearest.as_ref().map(StreamId::as_str));
            let message = match (known.as_slice(), &unknown.nearest) {
                // Named once, although it is all there is.
                ([_], Some(_)) => format!("the metadata does not describe it{nearest}"),
                _ => format!("the metadata does not describe it, but {described}{nearest}"),
            };
            (format!("stream {}", unknown.stream), message)
        })
        .collect();
    if waited_for.is_empty() && selected.metadata.streams.is_empty() {
        let message = format!("it selects no stream; the metadata describes {described}");
        waited_for.push((SUBSCRIPTION.to_owned(), message));
    }
    waited_for
}
