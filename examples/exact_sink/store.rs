//! Where rows are kept: a folder with one `SQLite` file a shard.
//!
//! A file holds the rows of its shard and, changed in the same transaction, the tick up to which it has
//! them and the number of the run that writes to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use timely_kafka::{RecordRef, Tick};

/// How long a transaction waits for another one of the same file.
const BUSY_WITHIN: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS rows (
        number INTEGER PRIMARY KEY, -- in the order in which they were written
        tick INTEGER NOT NULL,
        split TEXT NOT NULL,
        offset INTEGER NOT NULL,
        key BLOB,
        value BLOB
    ) STRICT;
    CREATE INDEX IF NOT EXISTS rows_by_tick ON rows (tick);
    CREATE TABLE IF NOT EXISTS state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        shards INTEGER NOT NULL, -- how many there are, fixed when the store is made
        tick INTEGER NOT NULL, -- up to which the rows are here, all of them
        run INTEGER NOT NULL -- the only one that may write
    ) STRICT;";

/// A record as it is stored, in the order in which one shard stores those of a tick.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) split: String,
    pub(crate) offset: u64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
}

impl Row {
    pub(crate) fn of(record: RecordRef<'_>) -> Self {
        Self {
            split: record.split().to_string(),
            offset: record.offset().get(),
            key: record.key().map(<[u8]>::to_vec),
            value: record.value().map(<[u8]>::to_vec),
        }
    }

    /// The shard, of `shards`, that the row belongs to: by its key alone, whoever reads it.
    pub(crate) fn shard(&self, shards: u64) -> u64 {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        // FNV-1a: the hashes of the standard library are not promised to stay the same.
        let hash = (self.key.iter().flatten()).fold(BASIS, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
        });
        hash % shards
    }
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The file system or `SQLite` failed.
    #[error("store {path}: {doing} failed")]
    Failed {
        path: String,
        doing: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    /// The folder cannot be made.
    #[error("store {path}: making the folder failed")]
    Folder {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// It was made with another number of shards.
    #[error("store {path}: it has {found} shards; expected {expected}, which cannot be changed")]
    Shards {
        path: String,
        found: u64,
        expected: u64,
    },
    /// Another run has begun.
    #[error("store {path}: run {run} may not write any more; a later run has begun")]
    Fenced { path: String, run: u64 },
}

/// A folder of shards.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    pub(crate) shards: u64,
}

/// What a run has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Its number.
    pub(crate) run: u64,
    /// The store has the rows of all ticks up to this one, and of no later tick.
    pub(crate) tick: Tick,
}

impl Store {
    /// A store in a folder, which is made with so many shards unless it is there.
    pub(crate) fn open(folder: &Path, shards: u64) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(|source| StoreError::Folder {
            path: folder.display().to_string(),
            source,
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            shards,
        })
    }

    pub(crate) fn shard(&self, number: u64) -> Result<Shard, StoreError> {
        Shard::open(&self.folder.join(format!("shard-{number}.db")), self.shards)
    }

    /// Begins a run: no earlier one can write any more, and no shard is ahead of another.
    ///
    /// It may be interrupted anywhere and done again.
    pub(crate) fn begin(&self) -> Result<Begun, StoreError> {
        let mut shards = (0..self.shards)
            .map(|number| self.shard(number))
            .collect::<Result<Vec<_>, _>>()?;
        let mut run = 0;
        for shard in &mut shards {
            run = run.max(shard.state()?.run + 1);
        }
        // First all shards are fenced: only then no tick of any of them can change.
        for shard in &mut shards {
            shard.fence(run)?;
        }
        let mut tick = Tick(u64::MAX);
        for shard in &mut shards {
            tick = tick.min(shard.state()?.tick);
        }
        for shard in &mut shards {
            shard.cut_back(run, tick)?;
        }
        Ok(Begun { run, tick })
    }
}

/// What a shard says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardState {
    pub(crate) tick: Tick,
    pub(crate) run: u64,
}

/// One file of a store.
///
/// # Invariants
///
/// It has exactly the rows of the shard that belong to ticks up to the tick in its state.
#[derive(Debug)]
pub(crate) struct Shard {
    path: String,
    connection: Connection,
}

impl Shard {
    fn open(path: &Path, shards: u64) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let failed = |doing| failed(&name, doing);
        let connection = Connection::open(path).map_err(failed("opening"))?;
        prepare(&connection, shards).map_err(failed("preparing"))?;
        let mut shard = Self {
            path: name.clone(),
            connection,
        };
        let found = shard.within("reading", |transaction| {
            transaction.query_row("SELECT shards FROM state", [], |row| row.get(0))
        })?;
        if found == shards {
            Ok(shard)
        } else {
            Err(StoreError::Shards {
                path: shard.path,
                found,
                expected: shards,
            })
        }
    }

    pub(crate) fn state(&mut self) -> Result<ShardState, StoreError> {
        self.within("reading", |transaction| {
            transaction.query_row("SELECT tick, run FROM state", [], |row| {
                Ok(ShardState {
                    tick: Tick(row.get(0)?),
                    run: row.get(1)?,
                })
            })
        })
    }

    /// From here on only `run`, or a later one, may write.
    fn fence(&mut self, run: u64) -> Result<(), StoreError> {
        self.write("fencing", run, |transaction| {
            transaction.execute("UPDATE state SET run = ?1 WHERE run < ?1", params![run])
        })
    }

    /// Removes what belongs to later ticks.
    fn cut_back(&mut self, run: u64, tick: Tick) -> Result<(), StoreError> {
        self.write("cutting back", run, |transaction| {
            transaction.execute("DELETE FROM rows WHERE tick > ?1", params![tick.0])?;
            transaction.execute(
                "UPDATE state SET tick = ?1 WHERE run = ?2",
                params![tick.0, run],
            )
        })
    }

    /// Stores the rows of all ticks up to `tick` that are not stored yet, in one transaction with the tick.
    pub(crate) fn commit(
        &mut self,
        run: u64,
        tick: Tick,
        rows: &[(Tick, Vec<Row>)],
    ) -> Result<(), StoreError> {
        self.write("committing", run, |transaction| {
            // A run that gives ticks again begins at the last one that is stored: nothing is to be added.
            let least = tick.0.saturating_sub(u64::from(!rows.is_empty()));
            let moved = transaction.execute(
                "UPDATE state SET tick = ?1 WHERE run = ?2 AND tick <= ?3",
                params![tick.0, run, least],
            )?;
            let mut insert = transaction.prepare_cached(
                "INSERT INTO rows (tick, split, offset, key, value) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            for (of, some) in rows {
                for row in some {
                    insert.execute(params![of.0, row.split, row.offset, row.key, row.value])?;
                }
            }
            Ok(moved)
        })
    }

    /// Runs a transaction that changes one row of the state, unless a later run has begun.
    fn write(
        &mut self,
        doing: &'static str,
        run: u64,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<usize>,
    ) -> Result<(), StoreError> {
        let written = self.within(doing, |transaction| match act(transaction)? {
            1 => Ok(Some(())),
            // Nothing of it stays: the transaction is dropped.
            _ => Err(rusqlite::Error::QueryReturnedNoRows),
        });
        match written {
            Err(StoreError::Failed {
                source: rusqlite::Error::QueryReturnedNoRows,
                ..
            }) => Err(StoreError::Fenced {
                path: self.path.clone(),
                run,
            }),
            other => other.map(|_| ()),
        }
    }

    fn within<R>(
        &mut self,
        doing: &'static str,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<R>,
    ) -> Result<R, StoreError> {
        let run = || {
            // It takes the lock at once, so that it waits for another one and never fails half-way.
            let transaction =
                (self.connection).transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = act(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        run().map_err(failed(&self.path, doing))
    }
}

fn failed(path: &str, doing: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Failed {
        path,
        doing,
        source,
    }
}

/// Makes what is not there yet.
fn prepare(connection: &Connection, shards: u64) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WITHIN)?;
    // FULL: a transaction that is committed survives the machine, as a durable binding does.
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch(SCHEMA)?;
    connection.execute(
        "INSERT OR IGNORE INTO state VALUES (1, ?1, 0, 0)",
        params![shards],
    )?;
    Ok(())
}
