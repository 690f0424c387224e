//! What came out of rounds: a line of JSON each.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plan::{Change, Plan};

/// The version of what a round does, and of what it does it to.
///
/// 1 gives ticks again; 2 is of a source that opens no tick before the log says which are void.
pub(crate) const VERSION: u32 = 2;

/// What came out of one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The seed of the campaign, and the number of the round in it.
    pub(crate) campaign: u64,
    pub(crate) round: u64,
    /// What the plan was drawn from.
    pub(crate) seed: u64,
    /// [`VERSION`] when it ran; zero before it gave ticks again, which is not counted.
    #[serde(default)]
    pub(crate) version: u32,
    /// How many processes there were at most.
    pub(crate) processes: usize,
    /// "good", or what was found.
    pub(crate) verdict: String,
    pub(crate) deaths: Vec<Death>,
    pub(crate) changes: Vec<Change>,
    #[serde(default)]
    pub(crate) replays: Vec<Replayed>,
    /// How many records were written, and stored.
    pub(crate) records: u64,
    /// How many ticks with records were compared with the log in the end.
    pub(crate) ticks: usize,
    pub(crate) milliseconds: u64,
}

/// How a life ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Death {
    pub(crate) how: String,
    pub(crate) workers: usize,
    pub(crate) processes: usize,
    pub(crate) milliseconds: u64,
}

/// Ticks that were given again and were as they had been.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Replayed {
    pub(crate) ticks: usize,
    pub(crate) records: usize,
    /// Of the last of its runs.
    pub(crate) workers: usize,
    /// How the runs before it were killed, and whether the next one read the rest anew.
    pub(crate) deaths: Vec<Death>,
    pub(crate) anew: bool,
}

impl Outcome {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            campaign: 0,
            round: 0,
            seed: plan.seed,
            version: VERSION,
            processes: plan
                .lives
                .iter()
                .map(|life| life.processes)
                .max()
                .unwrap_or_default(),
            verdict: String::new(),
            deaths: Vec::new(),
            changes: Vec::new(),
            replays: Vec::new(),
            records: 0,
            ticks: 0,
            milliseconds: 0,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.verdict == "good"
    }
}

/// The outcomes in a file, none if there is no file.
pub(crate) fn load(path: &Path) -> io::Result<Vec<Outcome>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    // The last line is cut off where a campaign was killed.
    let outcomes = text.lines().map(serde_json::from_str);
    Ok(outcomes.filter_map(Result::ok).collect())
}

/// Adds an outcome to a file.
pub(crate) fn add(path: &Path, outcome: &Outcome) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let line = serde_json::to_string(outcome).map_err(io::Error::other)?;
    // In one write, and after whatever a killed campaign left.
    file.write_all(format!("\n{line}\n").as_bytes())
}
