//! One round: a source lives, is killed, and lives again, until it has everything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::check::{self, Found};
use crate::child::Begin;
use crate::kafka::RealKafka;
use crate::plan::{End, Life, Plan, Replay};
use crate::processes::{Place, Processes, SHARDS};
use crate::random::Random;
use crate::replay;
use crate::results::Outcome;
use crate::world::{CLUSTERS, World};

/// The round of a plan in a folder, where what it wrote stays.
struct Round<'a> {
    plan: &'a Plan,
    place: Place,
    world: World<'a>,
    outcome: Outcome,
}

/// Runs a plan.
pub(crate) fn run(kafka: &RealKafka, plan: &Plan, folder: &Path) -> Outcome {
    let began = Instant::now();
    let name = format!("{:x}", plan.seed);
    let world = World::new(kafka, &name, folder);
    let place = Place {
        folder: folder.to_owned(),
        metadata: world.metadata.clone(),
        splits: world.splits(),
        seed: plan.seed,
    };
    let mut round = Round {
        plan,
        place,
        world,
        outcome: Outcome::new(plan),
    };
    let verdict = round.live();
    let mut outcome = round.outcome;
    outcome.verdict = verdict.err().unwrap_or_else(|| "good".to_owned());
    outcome.milliseconds = began.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    outcome
}

impl Round<'_> {
    fn live(&mut self) -> Result<(), String> {
        let mut production = Some(self.world.produce(self.plan.seed));
        let (mut written, mut before, plan) = (None, None, self.plan);
        for (index, life) in plan.lives.iter().enumerate() {
            let mut processes = Processes::start(&self.place, index, life, Begin::AfterStored)?;
            self.change(life, &mut processes);
            if life.end == End::Asked {
                self.world.heal();
                written = production.take().map(crate::world::Production::end);
                let total = written.iter().flat_map(|counts| counts.values()).sum();
                self.outcome.records = total;
                processes.await_stored(&self.place.store(), total)?;
                processes.stop()?;
            } else {
                let death = processes.die(life)?;
                self.outcome.deaths.push(death);
            }
            let found = self
                .check(before.as_ref(), written.as_ref())
                .map_err(|error| format!("after life {index}: {error}"))?;
            if let Some(replay) = plan.replays.get(&index) {
                self.replay(index, replay, &found, written.as_ref())
                    .map_err(|error| format!("replay after life {index}: {error}"))?;
            }
            before = Some(found);
        }
        Ok(())
    }

    /// Checks the store as the dead left it.
    fn check(
        &mut self,
        before: Option<&Found>,
        written: Option<&BTreeMap<String, u64>>,
    ) -> Result<Found, String> {
        let found = check::read(&self.place.store(), SHARDS)?;
        let bound = check::bound(&self.place.log())?;
        self.outcome.ticks = check::compare_with_log(&found, &bound)?;
        if let Some(before) = before {
            check::compare_with_before(&found, before)?;
        }
        if let Some(written) = written {
            check::compare_with_written(&found, written)?;
        }
        Ok(found)
    }

    /// Gives ticks again that the lives until here have bound.
    fn replay(
        &mut self,
        index: usize,
        replay: &Replay,
        found: &Found,
        written: Option<&BTreeMap<String, u64>>,
    ) -> Result<(), String> {
        let folder = self.place.folder.join(format!("again-{index}"));
        fs::create_dir(&folder).map_err(|error| format!("making a folder: {error}"))?;
        let place = Place {
            metadata: self.world.write_all(&folder),
            folder,
            splits: self.place.splits.clone(),
            seed: self.place.seed,
        };
        let done = replay::run(replay, &place, &self.place.log(), found, written)?;
        self.outcome.replays.extend(done);
        Ok(())
    }

    /// Makes the changes of a life, as long as it lasts.
    fn change(&mut self, life: &Life, processes: &mut Processes) {
        let began = Instant::now();
        let most = life.most();
        let mut random = Random::of(self.plan.seed, 3);
        for (at, change) in &life.changes {
            if *at > most || processes.one_ends_within(at.saturating_sub(began.elapsed())) {
                break;
            }
            let broker = random.pick(&CLUSTERS);
            self.world.change(*change, broker);
            self.outcome.changes.push(*change);
        }
        processes.one_ends_within(most.saturating_sub(began.elapsed()));
    }
}

/// Removes what a round wrote.
pub(crate) fn clean(folder: &Path) {
    fs::remove_dir_all(folder).expect("the folder is ours");
}
