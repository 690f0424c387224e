//! An enumerator as far as a discovery can tell, which believes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::DiscoveryRig;
use crate::binding::SplitRange;
use crate::conformance::report::{Breach, Checked, ensure};
use crate::conformance::run::{Bell, Context};
use crate::discovery::{Appeared, DiscoveryEvent, DiscoveryRequest, SplitDiscovery};
use crate::epoch::{MetadataEpoch, RequestId};
use crate::split::{Metadata, Split};

/// Drives a discovery and checks what it says.
pub(super) struct Driver<R: DiscoveryRig> {
    pub(super) context: Context,
    pub(super) rig: R,
    discovery: R::Discovery,
    bell: Bell,
    epoch: MetadataEpoch,
    /// What each epoch lists.
    asked: BTreeMap<MetadataEpoch, <R::Split as Split>::Metadata>,
    /// The latest metadata that was told.
    pub(super) told: Option<<R::Split as Split>::Metadata>,
    pub(super) found: BTreeSet<(MetadataEpoch, R::Split)>,
    pub(super) gone: BTreeSet<(MetadataEpoch, R::Split)>,
    /// Under which epochs all was said to be found, and what had been found when that was said first.
    pub(super) all_found: BTreeMap<MetadataEpoch, BTreeSet<R::Split>>,
    requested: BTreeMap<RequestId, R::Split>,
    pub(super) resolved: BTreeMap<RequestId, <R::Split as Split>::Position>,
    /// What was said of each check.
    pub(super) checked: BTreeMap<RequestId, Vec<SplitRange<R::Split>>>,
    /// Of which splits each request to identify was answered.
    pub(super) identified: BTreeMap<RequestId, BTreeSet<R::Split>>,
    /// How often each request to judge was answered.
    pub(super) judged: BTreeMap<RequestId, usize>,
    /// How often each request for an end was answered.
    pub(super) ended: BTreeMap<RequestId, usize>,
    /// How many lines of health were said.
    pub(super) health: usize,
}

impl<R: DiscoveryRig> Driver<R> {
    pub(super) fn new(mut rig: R, context: Context) -> Self {
        let bell = Bell::new();
        let waker = bell.waker.clone();
        let (discovery, _) = context.call("making it", || rig.discovery(waker));
        Self {
            context,
            rig,
            discovery,
            bell,
            epoch: MetadataEpoch::default(),
            asked: BTreeMap::new(),
            told: None,
            found: BTreeSet::new(),
            gone: BTreeSet::new(),
            all_found: BTreeMap::new(),
            requested: BTreeMap::new(),
            resolved: BTreeMap::new(),
            checked: BTreeMap::new(),
            identified: BTreeMap::new(),
            judged: BTreeMap::new(),
            ended: BTreeMap::new(),
            health: 0,
        }
    }

    pub(super) fn patience(&self) -> Duration {
        self.context.kit.patience
    }

    /// Splits of the rig, by their indices.
    pub(super) fn splits<const N: usize>(&self, indices: [usize; N]) -> [R::Split; N] {
        indices.map(|index| self.rig.split(index))
    }

    /// Has the service announce splits, and asks for them.
    pub(super) fn discover(&mut self, splits: &[R::Split]) -> (MetadataEpoch, Duration) {
        self.rig.announce(splits);
        self.epoch = self.epoch.next();
        let (epoch, metadata) = (self.epoch, self.rig.metadata(splits));
        self.asked.insert(epoch, metadata.clone());
        let request = DiscoveryRequest::Discover { epoch, metadata };
        (epoch, self.request(request))
    }

    pub(super) fn resolve(&mut self, request: RequestId, split: &R::Split) -> Duration {
        self.requested.insert(request, split.clone());
        let split = split.clone();
        self.request(DiscoveryRequest::Resolve {
            request,
            split,
            appeared: Appeared::AtFirst,
        })
    }

    pub(super) fn check(&mut self, request: RequestId, ranges: Vec<SplitRange<R::Split>>) {
        self.request(DiscoveryRequest::Check { request, ranges });
    }

    pub(super) fn identify(&mut self, request: RequestId, splits: Vec<R::Split>) {
        self.request(DiscoveryRequest::Identify { request, splits });
    }

    pub(super) fn judge(&mut self, request: RequestId, split: &R::Split) {
        self.requested.insert(request, split.clone());
        let split = split.clone();
        self.request(DiscoveryRequest::Judge { request, split });
    }

    pub(super) fn end(&mut self, request: RequestId, split: &R::Split) {
        self.requested.insert(request, split.clone());
        let split = split.clone();
        self.request(DiscoveryRequest::End { request, split });
    }

    fn request(&mut self, request: DiscoveryRequest<R::Split>) -> Duration {
        let discovery = &mut self.discovery;
        let call = || discovery.request(request);
        self.context.call("request", call).1
    }

    /// Polls once, and says whether something came and how long it took.
    pub(super) fn poll(&mut self) -> Checked<(bool, Duration)> {
        let discovery = &mut self.discovery;
        let (event, took) = self.context.call("poll", || discovery.poll());
        let came = event.is_some();
        if let Some(event) = event {
            self.take(event)?;
        }
        Ok((came, took))
    }

    /// Polls what is there, some thousand answers at most.
    pub(super) fn drain(&mut self) -> Checked<usize> {
        self.bell.begin();
        let mut events = 0;
        while self.poll()?.0 {
            events += 1;
            ensure("D10", events <= 4 * self.rig.unpolled_max(), || {
                format!("{events} answers came without an end")
            })?;
        }
        Ok(events)
    }

    /// Polls until `done`, waiting to be woken, and breaks `number` if that does not come.
    pub(super) fn until(
        &mut self,
        number: &'static str,
        what: &str,
        done: impl Fn(&Self) -> bool,
    ) -> Checked {
        let deadline = self.context.now() + self.patience();
        loop {
            self.drain()?;
            if done(self) {
                return Ok(());
            }
            // It may be woken for something else, again and again.
            let left = deadline.saturating_sub(self.context.now());
            if !self.bell.wait(left) {
                let came = self.drain()? > 0;
                let (number, how) = if came {
                    ("D2", "it was there, and nobody was woken")
                } else {
                    (number, "it did not come")
                };
                let how = format!("{what}: {how}");
                return Err(Breach { number, how });
            }
        }
    }

    /// Waits to be woken, without having polled since there was nothing.
    pub(super) fn woken(&mut self, what: &str) -> Checked {
        let woken = self.bell.wait(self.patience());
        // Whether it is there is found out by whoever asks next.
        ensure("D2", woken || self.drain()? == 0, || {
            format!("{what}: it was there, and nobody was woken")
        })
    }

    /// Waits until it is known of the splits under an epoch that they exist.
    pub(super) fn until_found(
        &mut self,
        number: &'static str,
        epoch: MetadataEpoch,
        splits: &[R::Split],
    ) -> Checked {
        let names: Vec<String> = splits.iter().map(ToString::to_string).collect();
        let what = format!("{} under epoch {epoch}", names.join(" and "));
        self.until(number, &what, |driver| {
            let found = driver.known_under(epoch);
            splits.iter().all(|split| found.contains(split))
        })
    }

    /// The splits that were found under an epoch, or under one before it since which all list them.
    pub(super) fn known_under(&self, epoch: MetadataEpoch) -> BTreeSet<R::Split> {
        let listed = |since: MetadataEpoch, split: &R::Split| {
            let mut between = self.asked.range(since..=epoch);
            since <= epoch && between.all(|(_, metadata)| metadata.lists(split))
        };
        let found = self.found.iter();
        let found = found.filter(|(since, split)| listed(*since, split));
        found.map(|(_, split)| split.clone()).collect()
    }

    /// Polls for a while, whatever comes.
    pub(super) fn listen(&mut self) -> Checked {
        for _ in 0..4 {
            self.drain()?;
            self.bell.wait(self.patience() / 20);
        }
        // The bell may have been rung, and is not rung again as long as nobody polls.
        self.drain()?;
        Ok(())
    }

    /// Lets the discovery go on for a while without being polled.
    pub(super) fn idle(&self) {
        self.bell.wait(self.patience() / 10);
    }

    fn take(&mut self, event: DiscoveryEvent<R::Split>) -> Checked {
        match event {
            DiscoveryEvent::Metadata(metadata) => self.told = Some(metadata),
            DiscoveryEvent::Health(_) => self.health += 1,
            DiscoveryEvent::MetadataFailed
            | DiscoveryEvent::MetadataRepeated
            | DiscoveryEvent::MetadataSettled => {}
            DiscoveryEvent::Found { epoch, splits } => {
                for found in splits {
                    self.listed("found", epoch, &found.split)?;
                    self.found.insert((epoch, found.split));
                }
            }
            DiscoveryEvent::Gone { epoch, splits } => {
                for split in splits {
                    self.listed("gone", epoch, &split)?;
                    self.gone.insert((epoch, split));
                }
            }
            DiscoveryEvent::AllFound { epoch } => {
                let found = self.known_under(epoch);
                self.all_found.entry(epoch).or_insert(found);
            }
            DiscoveryEvent::Checked { request, lost } => {
                let lost = lost.into_iter().map(|(range, _)| range).collect();
                let twice = self.checked.insert(request, lost).is_some();
                ensure("D11", !twice, || {
                    format!("check {request} was answered twice")
                })?;
            }
            DiscoveryEvent::Identified { request, splits } => {
                let splits = splits.into_iter().map(|(split, _)| split);
                self.identified.entry(request).or_default().extend(splits);
            }
            one @ (DiscoveryEvent::Judged { .. }
            | DiscoveryEvent::End { .. }
            | DiscoveryEvent::Resolved { .. }) => self.take_of_one(one)?,
        }
        Ok(())
    }

    /// Takes what is said of one split.
    fn take_of_one(&mut self, event: DiscoveryEvent<R::Split>) -> Checked {
        match event {
            DiscoveryEvent::Judged {
                request,
                split,
                remains,
            } => {
                ensure("D13", self.requested.get(&request) == Some(&split), || {
                    format!("request {request} was answered for {split}, and was not about it")
                })?;
                ensure("D13", remains.first <= remains.end, || {
                    format!(
                        "{split} begins at {} and ends at {}",
                        remains.first, remains.end
                    )
                })?;
                *self.judged.entry(request).or_default() += 1;
            }
            DiscoveryEvent::End {
                request,
                split,
                end,
            } => {
                ensure("D15", self.requested.get(&request) == Some(&split), || {
                    format!("request {request} was answered for {split}, and was not about it")
                })?;
                let start = self.rig.start(&split);
                ensure("D15", !R::Split::precedes(&end, &start), || {
                    format!("{split} starts at {start}, and is said to end at {end}")
                })?;
                *self.ended.entry(request).or_default() += 1;
            }
            DiscoveryEvent::Resolved {
                request,
                split,
                start,
                ..
            } => {
                ensure("D7", self.requested.get(&request) == Some(&split), || {
                    format!("request {request} was answered for {split}, and was not about it")
                })?;
                let expected = self.rig.start(&split);
                ensure("D7", start == expected, || {
                    format!("{split} starts at {expected}, and it says {start}")
                })?;
                let twice = self.resolved.insert(request, start).is_some();
                ensure("D7", !twice, || {
                    format!("request {request} was answered twice")
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn listed(&self, what: &str, epoch: MetadataEpoch, split: &R::Split) -> Checked {
        let asked = self.asked.get(&epoch);
        ensure("D4", asked.is_some(), || {
            format!("{split} is {what} under epoch {epoch}, which was not asked about")
        })?;
        let listed = asked.is_some_and(|metadata| metadata.lists(split));
        // With one epoch it is what was asked; with several, what was asked under another one.
        let number = if self.epoch.0 > 1 { "D6" } else { "D4" };
        ensure(number, listed, || {
            format!("{split} is {what} under epoch {epoch}, which does not list it")
        })
    }
}
