//! Discoveries that keep the contract, and discoveries that break it.

#![expect(clippy::unwrap_used, reason = "a poisoned lock fails the test")]

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timely_splits::binding::SplitRange;
use timely_splits::conformance::DiscoveryRig;
use timely_splits::discovery::{DiscoveryEvent, DiscoveryRequest, FoundSplit, SplitDiscovery};
use timely_splits::epoch::{MetadataEpoch, RequestId};
use timely_splits::health::{FailureKind, Health, HealthStatus};
use timely_splits::loss::Remains;
use timely_splits::split::Metadata;
use timely_splits::wake::Waker;

use super::support::{Letter, Letters, World};
use super::{assert_broken, kit};

/// What is wrong with a discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    Nothing,
    WaitsForAnswers,
    NeverWakes,
    TellsMetadataOnce,
    FindsWhatIsNotListed,
    FindsNothing,
    LooksOnce,
    KeepsTheFirstMetadata,
    ResolvesTwice,
    ResolvesToTheWrongPlace,
    TakesSilenceForGone,
    TakesSilenceForEmpty,
    NeverSaysGone,
    HoardsAnswers,
    FindsNothingLost,
    IdentifiesNobody,
    JudgesTwice,
    EndsTwice,
    EndsBeforeItStarts,
    NeverFoundAll,
    FoundAllTooSoon,
}

/// Records before this position are gone.
const GONE_BEFORE: u64 = 3;

/// What there is to find.
#[derive(Default)]
struct Place {
    exists: BTreeSet<Letter>,
    unreachable: bool,
    answers: VecDeque<Letters>,
    waker: Option<Waker>,
}

impl Place {
    fn wake(&self) {
        self.waker.iter().for_each(Waker::wake);
    }
}

/// Looks when it is polled: what it looks at says when it changes.
struct Finder {
    place: Arc<Mutex<Place>>,
    defect: Defect,
    target: Option<(MetadataEpoch, Letters)>,
    found: BTreeSet<Letter>,
    told: bool,
    complained: bool,
    looked: bool,
    all_found: bool,
    resolving: VecDeque<(RequestId, Letter)>,
    said: VecDeque<DiscoveryEvent<Letter>>,
}

impl Finder {
    fn look(&mut self) {
        let mut place = self.place.lock().unwrap();
        if self.defect != Defect::HoardsAnswers {
            let latest = place.answers.pop_back();
            place.answers = latest.into_iter().collect();
        }
        while let Some(answer) = place.answers.pop_front() {
            if self.defect != Defect::TellsMetadataOnce || !self.told {
                self.said.push_back(DiscoveryEvent::Metadata(answer));
            }
            self.told = true;
        }
        let Some((epoch, metadata)) = self.target.clone() else {
            return;
        };
        if self.defect == Defect::FoundAllTooSoon && !std::mem::replace(&mut self.all_found, true) {
            self.said.push_back(DiscoveryEvent::AllFound { epoch });
        }
        if place.unreachable && self.defect != Defect::TakesSilenceForGone {
            if self.defect == Defect::TakesSilenceForEmpty {
                let answers = self.resolving.drain(..).map(|asked| resolved(asked, 7));
                self.said.extend(answers);
            } else if !self.complained {
                self.complained = true;
                let status = HealthStatus::Failing(FailureKind::Transient);
                let health = Health::new("place", status, "it does not answer");
                self.said.push_back(DiscoveryEvent::Health(health));
            }
            return;
        }
        let listed = |letter: &&Letter| metadata.lists(letter) && !place.unreachable;
        let mut exists: BTreeSet<Letter> = place.exists.iter().filter(listed).copied().collect();
        match self.defect {
            Defect::FindsWhatIsNotListed => exists.extend([Letter('z')]),
            Defect::FindsNothing => exists.clear(),
            Defect::LooksOnce if self.looked => exists.clone_from(&self.found),
            _ => {}
        }
        self.looked = true;
        let splits: Vec<_> = exists.difference(&self.found).copied().collect();
        let gone: Vec<_> = self.found.difference(&exists).copied().collect();
        if !splits.is_empty() {
            let splits = splits.into_iter().map(|split| FoundSplit::new(split, ()));
            let splits = splits.collect();
            self.said.push_back(DiscoveryEvent::Found { epoch, splits });
        }
        if !gone.is_empty() && self.defect != Defect::NeverSaysGone {
            self.said.push_back(DiscoveryEvent::Gone {
                epoch,
                splits: gone,
            });
        }
        if !std::mem::replace(&mut self.all_found, true) {
            self.said.push_back(DiscoveryEvent::AllFound { epoch });
        }
        self.found = exists;
        for request in self.resolving.drain(..) {
            let wrong = self.defect == Defect::ResolvesToTheWrongPlace;
            let answer = resolved(request, if wrong { 8 } else { 7 });
            if self.defect == Defect::ResolvesTwice {
                self.said.push_back(answer.clone());
            }
            self.said.push_back(answer);
        }
    }
}

fn resolved((request, split): (RequestId, Letter), start: u64) -> DiscoveryEvent<Letter> {
    DiscoveryEvent::Resolved {
        request,
        split,
        start,
        stop: None,
        rule: "earliest".to_owned(),
    }
}

impl SplitDiscovery<Letter> for Finder {
    fn request(&mut self, request: DiscoveryRequest<Letter>) {
        match request {
            DiscoveryRequest::Discover { epoch, metadata } => {
                let metadata = match (&self.target, self.defect) {
                    (Some((_, first)), Defect::KeepsTheFirstMetadata) => first.clone(),
                    _ => metadata,
                };
                self.target = Some((epoch, metadata));
                self.found.clear();
                self.looked = false;
                self.all_found = self.defect == Defect::NeverFoundAll;
            }
            DiscoveryRequest::Check {
                request,
                mut ranges,
            } => {
                ranges.retain(|range| range.from < GONE_BEFORE);
                if self.defect == Defect::FindsNothingLost {
                    ranges.clear();
                }
                let lost = ranges.into_iter();
                let lost = lost.map(|range| (range, "too old".to_owned())).collect();
                self.said
                    .push_back(DiscoveryEvent::Checked { request, lost });
            }
            DiscoveryRequest::Identify { .. } if self.defect == Defect::IdentifiesNobody => {}
            DiscoveryRequest::Identify { request, splits } => {
                let splits = splits.into_iter().map(|split| (split, Some(()))).collect();
                self.said
                    .push_back(DiscoveryEvent::Identified { request, splits });
            }
            DiscoveryRequest::Judge { request, split } => {
                let remains = Remains {
                    identity: Some(()),
                    first: GONE_BEFORE,
                    end: GONE_BEFORE,
                };
                let judged = DiscoveryEvent::Judged {
                    request,
                    split,
                    remains,
                };
                if self.defect == Defect::JudgesTwice {
                    self.said.push_back(judged.clone());
                }
                self.said.push_back(judged);
            }
            DiscoveryRequest::End { request, split } => {
                let wrong = self.defect == Defect::EndsBeforeItStarts;
                let end = if wrong { 6 } else { 7 };
                let answer = DiscoveryEvent::End {
                    request,
                    split,
                    end,
                };
                if self.defect == Defect::EndsTwice {
                    self.said.push_back(answer.clone());
                }
                self.said.push_back(answer);
            }
            DiscoveryRequest::Resolve { request, split, .. } => {
                self.resolving.push_back((request, split));
            }
        }
        self.place.lock().unwrap().wake();
    }

    fn poll(&mut self) -> Option<DiscoveryEvent<Letter>> {
        if self.said.is_empty() {
            self.look();
        }
        if self.said.is_empty() && self.defect == Defect::WaitsForAnswers {
            std::thread::park();
        }
        self.said.pop_front()
    }
}

struct Rig {
    place: Arc<Mutex<Place>>,
    defect: Defect,
}

impl Rig {
    fn new(defect: Defect) -> Self {
        let exists = BTreeSet::from([Letter('a'), Letter('b')]);
        let place = Place {
            exists,
            ..Place::default()
        };
        Self {
            place: Arc::new(Mutex::new(place)),
            defect,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Place)) -> bool {
        let mut place = self.place.lock().unwrap();
        change(&mut place);
        place.wake();
        true
    }
}

impl DiscoveryRig for Rig {
    type Split = Letter;
    type Discovery = Finder;

    fn discovery(&mut self, waker: Waker) -> Finder {
        let waker = (self.defect != Defect::NeverWakes).then_some(waker);
        self.change(|place| place.waker = waker);
        Finder {
            place: Arc::clone(&self.place),
            defect: self.defect,
            target: None,
            found: BTreeSet::new(),
            told: false,
            complained: false,
            looked: false,
            all_found: false,
            resolving: VecDeque::new(),
            said: VecDeque::new(),
        }
    }

    fn split(&self, index: usize) -> Letter {
        Letter(['a', 'b', 'c'][index])
    }

    fn metadata(&self, splits: &[Letter]) -> Letters {
        Letters(splits.iter().copied().collect())
    }

    fn announce(&mut self, splits: &[Letter]) {
        let metadata = self.metadata(splits);
        self.change(|place| place.answers.push_back(metadata));
    }

    fn start(&self, _split: &Letter) -> u64 {
        7
    }

    fn create(&mut self, split: &Letter) -> bool {
        self.change(|place| _ = place.exists.insert(*split))
    }

    fn remove(&mut self, split: &Letter) -> bool {
        self.change(|place| _ = place.exists.remove(split))
    }

    fn reach(&mut self, reachable: bool) -> bool {
        self.change(|place| place.unreachable = !reachable)
    }

    fn ranges(&mut self) -> Option<[SplitRange<Letter>; 2]> {
        let range = |letter, from| {
            let split = Letter(letter);
            SplitRange { split, from, to: 9 }
        };
        Some([range('a', GONE_BEFORE), range('b', GONE_BEFORE - 1)])
    }

    fn unpolled_max(&self) -> usize {
        100
    }
}

/// The discovery of the tests' world, in which whatever is listed exists.
struct WorldRig(World);

impl DiscoveryRig for WorldRig {
    type Split = Letter;
    type Discovery = Box<dyn SplitDiscovery<Letter>>;

    fn discovery(&mut self, waker: Waker) -> Self::Discovery {
        let log = timely_splits::log::MemoryLog::new();
        (self.0.enumeration(log).discovery)(waker)
    }

    fn split(&self, index: usize) -> Letter {
        Letter(['a', 'b', 'c'][index])
    }

    fn metadata(&self, splits: &[Letter]) -> Letters {
        Letters(splits.iter().copied().collect())
    }

    fn announce(&mut self, splits: &[Letter]) {
        let letters: String = splits.iter().map(|letter| letter.0).collect();
        self.0.list(&letters);
    }

    fn start(&self, _split: &Letter) -> u64 {
        0
    }
}

#[test]
fn discoveries_of_the_tests_keep_their_contract() {
    kit()
        .discovery(|| Rig::new(Defect::Nothing))
        .assert_kept_but(&[]);
    kit()
        .discovery(|| WorldRig(World::default()))
        .assert_kept_but(&["D5", "D8", "D9", "D11"]);
}

#[test]
fn each_broken_discovery_is_rejected_by_the_obligation_that_it_breaks() {
    let broken = [
        (Defect::WaitsForAnswers, "D1"),
        (Defect::NeverWakes, "D2"),
        (Defect::TellsMetadataOnce, "D3"),
        (Defect::FindsWhatIsNotListed, "D4"),
        (Defect::FindsNothing, "D4"),
        (Defect::LooksOnce, "D5"),
        (Defect::KeepsTheFirstMetadata, "D6"),
        (Defect::ResolvesTwice, "D7"),
        (Defect::ResolvesToTheWrongPlace, "D7"),
        (Defect::TakesSilenceForGone, "D8"),
        (Defect::TakesSilenceForEmpty, "D8"),
        (Defect::NeverSaysGone, "D9"),
        (Defect::HoardsAnswers, "D10"),
        (Defect::FindsNothingLost, "D11"),
        (Defect::IdentifiesNobody, "D12"),
        (Defect::JudgesTwice, "D13"),
        (Defect::NeverFoundAll, "D14"),
        (Defect::FoundAllTooSoon, "D14"),
        (Defect::EndsTwice, "D15"),
        (Defect::EndsBeforeItStarts, "D15"),
    ];
    for (defect, number) in broken {
        let kit = kit().patience(Duration::from_millis(100));

        let report = kit.discovery(move || Rig::new(defect));

        println!("{defect:?}\n{report}");
        assert_broken(&report, number);
    }
}
