//! What a split's records are emitted as.
//!
//! A record of a hundred bytes costs more to allocate, to account for and to route than to read.
//! So the unit that travels is a [`RecordBatch`]: records of one split over one shared buffer, with
//! an index of fixed-size entries beside it. Records are looked at in place, as [`RecordRef`]s, and
//! become [`Record`]s of their own only where somebody asks for them.
//!
//! - [`BatchBuilder`] makes a batch of what was fetched.
//! - [`RecordBatch`] is the container of the stream, within a process and between processes.
//! - [`BatchStream`] has the operators that take a stream of batches apart or move it.
//! - [`Record`] is the owned row.

mod batch;
mod builder;
mod entry;
mod frame;
mod guard;
mod pool;
mod record;
mod record_ref;
mod stream;
#[cfg(test)]
mod testing;
mod time;
mod varint;
mod wire;

pub use self::batch::{RecordBatch, Records};
pub use self::builder::{BatchBuilder, RecordParts};
pub(crate) use self::guard::BatchGuard;
pub use self::record::Record;
pub use self::record_ref::{HeaderRef, Headers, RecordRef};
pub use self::stream::BatchStream;
pub use self::time::{RecordTime, RecordTimeType};
pub use self::wire::WireError;
