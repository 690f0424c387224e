//! Where reading starts and stops, and where splits end.

use std::time::{Duration, Instant};

use timely_splits::discovery::DiscoveryEvent;
use timely_splits::health::HealthStatus;

use super::{Asker, Client, DEFINITE, Standing, TRANSIENT, client_of};
use crate::discovery::inbox::{WantedStart, Wanting};
use crate::discovery::outlet::Unheard;
use crate::discovery::resolve::{Asking, Resolved, Rules, resolve};
use crate::discovery::starts::{Answered, Asked};
use crate::fetcher::ffi::control::{ControlError, Isolation};
use crate::model::{ClientProperties, KafkaPosition, KafkaSplit, StartAt, StopAt};

/// What each of the splits is answered.
type Answers = Vec<(KafkaSplit, Answered, Result<Resolved, ControlError>)>;

/// What was found out aside.
///
/// An answer that takes a group waits for the group's coordinator, which can hang while the rest of the
/// cluster does not.
#[derive(Debug)]
pub(super) struct Found {
    /// What the cluster was reached by.
    properties: ClientProperties,
    splits: Vec<(KafkaSplit, Answered)>,
    /// The answers, or why no client could be made.
    answers: Result<Answers, String>,
}

impl Asker {
    /// What is to be asked about a split; `None` if it is not listed.
    pub(super) fn rules(&self, wanted: &WantedStart) -> Option<Rules> {
        let rules = self.target.as_ref()?.topics.get(&wanted.split.topic)?;
        let start = match &wanted.rule {
            Wanting::Given(start) => {
                return Some(Rules::new(start.clone(), StopAt::Never, false));
            }
            Wanting::End => return Some(Rules::end()),
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

    /// When starts are to be looked up next, if the cluster may be asked for them.
    pub(super) fn look_up_due(&self) -> Option<Instant> {
        let aside = self.under_way.is_under_way();
        let due = self.starts.due(|rules| !(aside && rules.ask_group()));
        due.filter(|_| self.is_meant())
    }

    /// Looks up the starts that are due.
    pub(super) fn look_up(&mut self) -> Result<(), Unheard> {
        if let Some(found) = self.under_way.done() {
            self.looked_up(found)?;
        }
        let subject = self.subject();
        if self.starts.is_empty() {
            let message = "all that were asked for are known";
            return self.voice.well(&subject, message);
        }
        match self.standing {
            Standing::Unknown => Ok(()),
            Standing::Taken | Standing::Foreign => {
                let message =
                    "they are not asked for: what answers is not the cluster that is meant";
                self.voice.say(&subject, HealthStatus::Waiting, message)
            }
            Standing::Meant => {
                self.look_up_aside()?;
                self.look_up_here()
            }
        }
    }

    fn subject(&self) -> String {
        format!("offsets of cluster {}", self.cluster)
    }

    /// Begins to look up what it may take a group to answer, unless that is under way.
    fn look_up_aside(&mut self) -> Result<(), Unheard> {
        if self.under_way.is_under_way() {
            return Ok(());
        }
        let now = Instant::now();
        let asked = self.starts.batch(now, Rules::ask_group);
        let Some(target) = self.target.as_ref().filter(|_| !asked.is_empty()) else {
            return Ok(());
        };
        let (properties, timeout) = (target.properties.clone(), self.options.timeout);
        let splits: Vec<_> = (asked.iter())
            .map(|(split, asked, _)| (split.clone(), *asked))
            .collect();
        let work = move || {
            let client = client_of(&properties);
            let answers = client.map(|mut client| ask(&mut client, &properties, asked, timeout));
            Found {
                properties,
                splits,
                answers,
            }
        };
        let name = format!("kafka-starts-{}", self.cluster);
        let Err(error) = self.under_way.begin(name, &self.inbox, work) else {
            return Ok(());
        };
        for (split, unasked, _) in self.starts.batch(now, Rules::ask_group) {
            self.starts.failed(&split, unasked, now);
        }
        let (subject, message) = (
            self.subject(),
            format!("no thread could be started: {error}"),
        );
        self.voice.say(&subject, TRANSIENT, &message)
    }

    /// Looks up what the leaders of partitions answer, one call's worth at a time.
    fn look_up_here(&mut self) -> Result<(), Unheard> {
        loop {
            let now = Instant::now();
            let asked = self.starts.batch(now, |rules| !rules.ask_group());
            let Some(target) = self.target.clone().filter(|_| !asked.is_empty()) else {
                return Ok(());
            };
            let connected = self.connect(&target.properties)?;
            let Some(client) = self.client.as_mut().filter(|_| connected) else {
                // `connect` has said why.
                for (split, unasked, _) in asked {
                    self.starts.failed(&split, unasked, now);
                }
                return Ok(());
            };
            let answers = ask(client, &target.properties, asked, self.options.timeout);
            if self.inbox.is_closed() {
                return Err(Unheard);
            }
            // If one failed, a target may have come meanwhile, which is worth more than the rest.
            if !self.answered(answers)? {
                return Ok(());
            }
        }
    }

    /// Says where splits start that were looked up aside.
    fn looked_up(&mut self, found: Found) -> Result<(), Unheard> {
        let target = self.target.as_ref();
        let same = target.is_some_and(|target| target.properties == found.properties);
        let words = match found.answers {
            // What was asked may be another cluster than the one that is meant by now.
            Ok(answers) if same && self.is_meant() => return self.answered(answers).map(|_| ()),
            Ok(_) => None,
            Err(words) => Some(words),
        };
        let now = Instant::now();
        for (split, asked) in found.splits {
            self.starts.failed(&split, asked, now);
        }
        let subject = self.subject();
        words.map_or(Ok(()), |words| {
            let message = format!("no client can be made for them: {words}");
            self.voice.say(&subject, DEFINITE, &message)
        })
    }

    /// Says where splits start; what failed is asked for again. Whether nothing did.
    fn answered(&mut self, answers: Answers) -> Result<bool, Unheard> {
        let now = Instant::now();
        let mut failed = None;
        for (split, asked, answer) in answers {
            match answer {
                Ok(Resolved { start, stop, rule }) => {
                    if !self.starts.answered(&split, asked) {
                        continue;
                    }
                    let Answered { request, of_end } = asked;
                    tracing::debug!(%split, %start, rule, of_end, "resolved where it starts, or ends");
                    self.outlet.send(if of_end {
                        let end = KafkaPosition::at(start.next);
                        DiscoveryEvent::End {
                            request,
                            split,
                            end,
                        }
                    } else {
                        DiscoveryEvent::Resolved {
                            request,
                            split,
                            start,
                            stop,
                            rule,
                        }
                    })?;
                }
                Err(error) => {
                    self.starts.failed(&split, asked, now);
                    failed.get_or_insert((split, error));
                }
            }
        }
        let Some((split, error)) = failed else {
            return Ok(true);
        };
        let message = format!("asking where split {split} starts or ends failed: {error}");
        let subject = self.subject();
        self.voice.say(&subject, TRANSIENT, &message)?;
        Ok(false)
    }
}

/// Asks where reading starts.
fn ask(
    (made_of, client): &mut Client,
    properties: &ClientProperties,
    asked: Vec<Asked>,
    timeout: Duration,
) -> Answers {
    let isolation = match properties.value("isolation.level") {
        Some("read_uncommitted") => Isolation::Uncommitted,
        _ => Isolation::Committed,
    };
    let (about, questions): (Vec<_>, Vec<_>) = (asked.into_iter())
        .map(|(split, request, question)| ((split, request), question))
        .unzip();
    let mut asking = Asking {
        properties: made_of,
        client,
        isolation,
        timeout,
    };
    let answers = resolve(&mut asking, questions);
    let answered = about.into_iter().zip(answers);
    answered
        .map(|((split, request), answer)| (split, request, answer))
        .collect()
}
