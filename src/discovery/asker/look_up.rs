//! Where reading starts and stops.

use std::time::Instant;

use timely_splits::discovery::DiscoveryEvent;

use super::{Asker, TRANSIENT};
use crate::discovery::inbox::{WantedStart, Wanting};
use crate::discovery::outlet::Unheard;
use crate::discovery::resolve::{Asking, Question, Resolved, Rules, resolve};
use crate::fetcher::ffi::control::{ControlError, Isolation};
use crate::model::{StartAt, StopAt};

impl Asker {
    /// What is to be asked about the split; `None` if it is not listed.
    pub(super) fn rules(&self, wanted: &WantedStart) -> Option<Rules> {
        let rules = self.target.as_ref()?.topics.get(&wanted.split.topic)?;
        let start = match &wanted.rule {
            Wanting::Given(start) => {
                return Some(Rules::new(start.clone(), StopAt::Never, false));
            }
            Wanting::OfNewCluster if rules.starts.new_clusters.is_some() => {
                &rules.starts.new_clusters
            }
            Wanting::OfNewTopic if rules.starts.new_topics.is_some() => &rules.starts.new_topics,
            Wanting::OfTopic | Wanting::OfNewCluster | Wanting::OfNewTopic => &rules.starts.start,
            // By default it begins where it begins: what was written between its creation and its
            // discovery must not be lost.
            Wanting::OfNewPartitions => &rules.starts.new_partitions,
        };
        let start = start.clone().unwrap_or(StartAt::Earliest);
        Some(Rules::new(start, rules.stop.clone(), self.options.bounded))
    }

    /// Looks up the starts that are due, one call's worth at a time.
    pub(super) fn look_up(&mut self) -> Result<(), Unheard> {
        let subject = format!("offsets of cluster {}", self.cluster);
        loop {
            let batch = self.starts.batch(Instant::now());
            if batch.is_empty() {
                break;
            }
            let (splits, questions): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let answers = self.ask_starts(questions)?;
            if self.inbox.is_closed() {
                return Err(Unheard);
            }
            let now = Instant::now();
            let mut failed = None;
            for (split, answer) in splits.into_iter().zip(answers) {
                match answer {
                    Ok(Resolved { start, stop, rule }) => {
                        if let Some(request) = self.starts.answered(&split) {
                            tracing::debug!(%split, %start, rule, "resolved where reading starts");
                            self.outlet.send(DiscoveryEvent::Resolved {
                                request,
                                split,
                                start,
                                stop,
                                rule,
                            })?;
                        }
                    }
                    Err(error) => {
                        self.starts.failed(&split, now);
                        failed.get_or_insert((split, error));
                    }
                }
            }
            if let Some((split, error)) = failed {
                let message = format!("asking where split {split} starts failed: {error}");
                self.voice.say(&subject, TRANSIENT, &message)?;
                // A target may have come meanwhile, which is worth more than the rest.
                return Ok(());
            }
        }
        if self.starts.is_empty() {
            self.voice
                .well(&subject, "all that were asked for are known")?;
        }
        Ok(())
    }

    /// Asks where reading starts; one answer for each question, in order.
    fn ask_starts(
        &mut self,
        questions: Vec<Question>,
    ) -> Result<Vec<Result<Resolved, ControlError>>, Unheard> {
        let properties = self.target.as_ref().map(|target| target.properties.clone());
        let properties = properties.unwrap_or_default();
        let connected = self.connect(&properties)?;
        let Some((made_of, client)) = self.client.as_mut().filter(|_| connected) else {
            // `connect` has said why.
            let unknown = questions.iter().map(|_| Err(ControlError::LeftOut));
            return Ok(unknown.collect());
        };
        let isolation = match properties.value("isolation.level") {
            Some("read_uncommitted") => Isolation::Uncommitted,
            _ => Isolation::Committed,
        };
        let mut asking = Asking {
            properties: made_of,
            client,
            isolation,
            timeout: self.options.timeout,
        };
        Ok(resolve(&mut asking, questions))
    }
}
