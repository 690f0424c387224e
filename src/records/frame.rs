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
    let memory = index.len() + payload.len();
    Ok(RecordBatch::new(split, index, payload, memory))
}

/// Checks the invariants of a batch, record by record.
fn check_records(index: &[u8], payload: &[u8]) -> Result<(), FrameError> {
    let mut before = None;
    for (record, entry) in index.chunks_exact(ENTRY_BYTES).enumerate() {
        let entry: Entry = bytemuck::pod_read_unaligned(entry);
        if !entry.is_valid(payload.len()) {
            return Err(FrameError::Entry { record });
        }
        if Headers::new(&payload[entry.headers()]).whole().is_none() {
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, proptest};
    use proptest::sample::Index;
    use timely::bytes::arc::BytesMut;

    use super::*;
    use crate::records::BatchBuilder;
    use crate::records::testing::{batch, batch_of, parts, rows, rows_of, split};

    fn written(batch: &RecordBatch) -> Vec<u8> {
        let mut frame = Vec::new();
        batch.into_bytes(&mut frame);
        frame
    }

    /// The bytes as timely hands them over, `shift` bytes into a block.
    fn received(frame: &[u8], shift: usize) -> FrameBytes {
        let mut block = BytesMut::from([&vec![0; shift], frame].concat()).freeze();
        drop(block.extract_to(shift));
        block
    }

    /// Looks at every byte that a batch gives access to.
    fn go_through(batch: &RecordBatch) -> usize {
        rows_of(batch)
            .iter()
            .map(|row| {
                let headers = row.headers.iter();
                let headers = headers.map(|(key, value)| key.len() + value.iter().len());
                row.key.iter().len() + row.value.iter().len() + headers.sum::<usize>()
            })
            .sum()
    }

    proptest! {
        #[test]
        fn what_crosses_is_what_was_built(rows in rows(), shift in 0..8_usize) {
            let batch = batch_of(&rows);

            let frame = written(&batch);
            let crossed = RecordBatch::from_bytes(received(&frame, shift));

            assert_eq!(frame.len(), batch.length_in_bytes());
            assert_eq!(frame.len() % ALIGNMENT, 0);
            assert_eq!(crossed, batch);
            assert_eq!(rows_of(&crossed), rows);
        }

        #[test]
        fn a_damaged_frame_is_refused_or_read_within_its_bounds(
            rows in rows(),
            damage in vec((any::<Index>(), any::<u8>()), 1..6),
            cut in any::<Index>(),
            cutting in any::<bool>(),
        ) {
            let mut frame = written(&batch_of(&rows));
            for (at, byte) in damage {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if cutting {
                frame.truncate(cut.index(frame.len()));
            }

            let read = read_frame(received(&frame, 0));

            match read {
                Ok(batch) => assert!(go_through(&batch) <= frame.len()),
                Err(error) => assert!(error.to_string().len() > 10),
            }
        }

        #[test]
        fn an_index_of_any_content_is_refused_or_read_within_its_bounds(
            entries in vec((0..80_u64, vec(0..24_u32, 3), 0..2_000_u32), 1..4),
            payload in vec(any::<u32>().prop_map(|word| word % 24), 0..20),
        ) {
            let index: Vec<u32> = (1..)
                .zip(entries)
                .flat_map(|(offset, (start, lengths, flags))| {
                    let words: [u32; 6] = bytemuck::cast([offset, 0, start]);
                    words.into_iter().chain(lengths).chain([flags])
                })
                .collect();
            let header = FrameHeader {
                records: (index.len() * size_of::<u32>() / ENTRY_BYTES) as u64,
                payload_length: (payload.len() * size_of::<u32>()) as u64,
                cluster_length: 4,
                topic_length: 4,
                partition: 0,
                generation: 0,
            };
            let names = b"eastrows".as_slice();
            let payload = bytemuck::cast_slice(&payload);
            let blocks = [
                bytemuck::bytes_of(&header),
                names,
                bytemuck::cast_slice(&index),
                payload,
                padding(payload.len()),
            ];

            let read = read_frame(received(&blocks.concat(), 0));

            match read {
                Ok(batch) => assert_eq!(rows_of(&batch).len() as u64, header.records),
                Err(error) => assert!(
                    matches!(error, FrameError::Entry { .. } | FrameError::Headers { .. }),
                    "{error}"
                ),
            }
        }

        #[test]
        fn bytes_that_are_no_frame_are_refused(bytes in vec(any::<u8>(), 0..200)) {
            let read = read_frame(received(&bytes, 0));

            assert!(read.is_err(), "{read:?}");
        }
    }

    #[test]
    fn a_batch_of_ten_mebibytes_crosses_without_a_copy() {
        let value = vec![7; 1 << 20];
        let mut builder = BatchBuilder::new();
        for offset in 0..10 {
            builder.push(&parts(offset, None, Some(&value)));
        }
        let batch = builder.finish(&split("east", 0));
        let frame = received(&written(&batch), 0);
        let there = frame.as_ptr_range();

        let crossed = RecordBatch::from_bytes(frame);

        assert_eq!(crossed, batch);
        let last = crossed.values().last().unwrap().unwrap();
        assert!(there.contains(&last.as_ptr()));
    }

    #[test]
    #[should_panic(expected = "cannot be read: frame ends within its payload: expected 3 bytes")]
    fn a_frame_that_was_cut_is_refused_with_words() {
        let frame = written(&batch("east", 0, 0..3));

        drop(RecordBatch::from_bytes(received(
            &frame[..frame.len() - ALIGNMENT],
            0,
        )));
    }

    /// The frame of one record that has a header, with one field of its entry or header replaced.
    fn frame_with(field_at: usize, value: u32) -> Vec<u8> {
        let mut builder = BatchBuilder::new();
        builder.push(&parts(0, Some(b"12345678"), None));
        builder.push_header(b"trace", Some(b"abc"));
        let mut frame = written(&builder.finish(&split("east", 0)));
        let at = HEADER_BYTES + padded("eastorders".len()) + field_at;
        frame[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        frame
    }

    #[test]
    fn an_entry_that_contradicts_itself_is_refused() {
        let (start_at, key_at, value_at, headers_at, flags_at) = (16, 24, 28, 32, 36);
        let wrong = [
            ("starts past the payload", start_at, 1_000),
            ("starts so late that its end wraps", start_at + 4, u32::MAX),
            ("key past the payload", key_at, 100),
            ("null value with a length", value_at, 1),
            ("headers past the payload", headers_at, 100),
            ("null key with a length", flags_at, 3),
            ("two kinds of time", flags_at, 2 + 4 + 8),
            ("a flag that does not exist", flags_at, 2 + 1024),
        ];
        for (what, at, value) in wrong {
            let read = read_frame(received(&frame_with(at, value), 0));

            assert!(
                matches!(read, Err(FrameError::Entry { record: 0 })),
                "{what}: {read:?}"
            );
        }
    }

    #[test]
    fn headers_that_are_not_whole_are_refused() {
        let lengths_at = ENTRY_BYTES + 8;
        let wrong = [
            ("headers cut", 32, 9),
            ("key past the headers", lengths_at, 2 * 9),
            ("value past the headers", lengths_at + 6, 2 * 4),
            ("bytes after the value", lengths_at + 6, 2 * 2),
        ];
        for (what, at, value) in wrong {
            let read = read_frame(received(&frame_with(at, value), 0));

            assert!(
                matches!(read, Err(FrameError::Headers { record: 0 })),
                "{what}: {read:?}"
            );
        }
    }

    #[test]
    fn records_out_of_order_are_refused() {
        let mut frame = written(&batch("east", 0, 0..2));
        let names = padded("eastorders".len());
        frame[HEADER_BYTES + names] = 1;

        let error = read_frame(received(&frame, 0)).unwrap_err();

        assert!(matches!(error, FrameError::Order { record: 1 }), "{error}");
    }
}
