//! How a batch crosses from one process to another.
//!
//! A frame is a header, the names of cluster and topic, the index and the payload, each padded to
//! eight bytes and copied as a block: what it costs does not depend on the number of records. It is
//! read only by the same incarnation that wrote it, on machines of one byte order, and is no format
//! to store.

use std::io::Write;

use bytemuck::{Pod, Zeroable};
use bytes::Bytes;
use timely::bytes::arc::Bytes as FrameBytes;
use timely::dataflow::channels::ContainerBytes;

use super::RecordBatch;
use super::entry::{ENTRY_BYTES, Entry};
use super::record_ref::Headers;
use crate::model::{ClusterId, Generation, KafkaSplit, NameError, Partition, TopicName};

/// What stands at the start of a frame. All zero if the batch has no records.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct FrameHeader {
    records: u64,
    payload_length: u64,
    cluster_length: u32,
    topic_length: u32,
    partition: i32,
    generation: u32,
}

const HEADER_BYTES: usize = size_of::<FrameHeader>();

/// What timely wants the length of a frame to be a multiple of.
const ALIGNMENT: usize = 8;

/// What is wrong with a frame.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("frame ends within its {part}: expected {length} bytes, {there} are there")]
    Short {
        part: &'static str,
        length: u64,
        there: usize,
    },
    #[error("frame has {extra} bytes after its end")]
    Long { extra: usize },
    #[error("frame has a {part} name that is not text")]
    NotText { part: &'static str },
    #[error("frame names no split")]
    Name(#[from] NameError),
    #[error("record {record} points out of the payload or contradicts itself")]
    Entry { record: usize },
    #[error("record {record} has headers that are not whole")]
    Headers { record: usize },
    #[error("record {record} has an offset that is not greater than the one before")]
    Order { record: usize },
}

impl ContainerBytes for RecordBatch {
    /// # Panics
    ///
    /// If the bytes are not a frame that [`into_bytes`](Self::into_bytes) wrote, which only a bug
    /// can cause: between processes timely moves bytes over TCP and nothing else writes there.
    fn from_bytes(bytes: FrameBytes) -> Self {
        match read_frame(bytes) {
            Ok(batch) => batch,
            Err(error) => panic!("a record batch from another worker cannot be read: {error}"),
        }
    }

    fn length_in_bytes(&self) -> usize {
        let Some(content) = self.content() else {
            return HEADER_BYTES;
        };
        let split = &content.split;
        let names = split.cluster.as_str().len() + split.topic.as_str().len();
        HEADER_BYTES + padded(names) + content.index.len() + padded(content.payload.len())
    }

    /// # Panics
    ///
    /// If the writer has no room for [`length_in_bytes`](Self::length_in_bytes), which timely
    /// reserves.
    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let room = "timely reserves as many bytes as were asked for";
        let mut write = |bytes: &[u8]| writer.write_all(bytes).expect(room);
        let Some(content) = self.content() else {
            write(bytemuck::bytes_of(&FrameHeader::zeroed()));
            return;
        };
        let split = &content.split;
        let (cluster, topic) = (split.cluster.as_str(), split.topic.as_str());
        write(bytemuck::bytes_of(&FrameHeader {
            records: self.len() as u64,
            payload_length: content.payload.len() as u64,
            cluster_length: name_length(cluster),
            topic_length: name_length(topic),
            partition: split.partition.0,
            generation: split.generation.0,
        }));
        write(cluster.as_bytes());
        write(topic.as_bytes());
        write(padding(cluster.len() + topic.len()));
        write(&content.index);
        write(&content.payload);
        write(padding(content.payload.len()));
    }
}

/// Reads a frame, and checks all that iterating over the batch relies on.
///
/// The batch shares the memory of `frame`.
pub(super) fn read_frame(frame: FrameBytes) -> Result<RecordBatch, FrameError> {
    let mut rest = Rest(Bytes::from_owner(Owner(frame)));
    let header = rest.take("header", HEADER_BYTES as u64)?;
    let header: FrameHeader = bytemuck::pod_read_unaligned(&header);
    let cluster_length = u64::from(header.cluster_length);
    let topic_length = u64::from(header.topic_length);
    let cluster = rest.take("cluster name", cluster_length)?;
    let topic = rest.take("topic name", topic_length)?;
    rest.take_padding("topic name", cluster_length + topic_length)?;
    let index_length = header.records.saturating_mul(ENTRY_BYTES as u64);
    let index = rest.take("index", index_length)?;
    let payload = rest.take("payload", header.payload_length)?;
    rest.take_padding("payload", header.payload_length)?;
    if !rest.0.is_empty() {
        let extra = rest.0.len();
        return Err(FrameError::Long { extra });
    }
    if index.is_empty() {
        return Ok(RecordBatch::default());
    }
    check_records(&index, &payload)?;
    let split = KafkaSplit {
        cluster: ClusterId::new(text("cluster", &cluster)?)?,
        topic: TopicName::new(text("topic", &topic)?)?,
        partition: Partition(header.partition),
        generation: Generation(header.generation),
    };
    Ok(RecordBatch::new(split, index, payload))
}

/// Checks the invariants of a batch, record by record.
fn check_records(index: &[u8], payload: &[u8]) -> Result<(), FrameError> {
    let mut before = None;
    for (record, entry) in index.chunks_exact(ENTRY_BYTES).enumerate() {
        let entry: Entry = bytemuck::pod_read_unaligned(entry);
        if !entry.is_valid(payload.len()) {
            return Err(FrameError::Entry { record });
        }
        if !Headers::new(&payload[entry.headers()]).all_whole() {
            return Err(FrameError::Headers { record });
        }
        if before.is_some_and(|before| before >= entry.offset) {
            return Err(FrameError::Order { record });
        }
        before = Some(entry.offset);
    }
    Ok(())
}

/// What was not read yet of a frame.
struct Rest(Bytes);

impl Rest {
    fn take(&mut self, part: &'static str, length: u64) -> Result<Bytes, FrameError> {
        let there = self.0.len();
        match usize::try_from(length) {
            Ok(length) if length <= there => Ok(self.0.split_to(length)),
            _ => Err(FrameError::Short {
                part,
                length,
                there,
            }),
        }
    }

    fn take_padding(&mut self, part: &'static str, length: u64) -> Result<(), FrameError> {
        let missing = length.wrapping_neg() % ALIGNMENT as u64;
        self.take(part, missing).map(drop)
    }
}

/// Lets `bytes` share the memory that timely read a frame into.
struct Owner(FrameBytes);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn text<'a>(part: &'static str, name: &'a [u8]) -> Result<&'a str, FrameError> {
    str::from_utf8(name).map_err(|_| FrameError::NotText { part })
}

fn name_length(name: &str) -> u32 {
    u32::try_from(name.len()).expect("names have at most 249 characters")
}

/// The zeros that fill `length` bytes up to whole words.
fn padding(length: usize) -> &'static [u8] {
    &[0; ALIGNMENT][..length.wrapping_neg() % ALIGNMENT]
}

fn padded(length: usize) -> usize {
    length + padding(length).len()
}
