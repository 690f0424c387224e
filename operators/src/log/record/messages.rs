//! The messages.

use prost::{Message, Oneof};

/// The records of one append.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FrameMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) records: Vec<RecordMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RecordMessage {
    #[prost(
        oneof = "Kind",
        tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16"
    )]
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Kind {
    #[prost(uint64, tag = "1")]
    Incarnation(u64),
    #[prost(uint64, tag = "2")]
    Reserved(u64),
    #[prost(message, tag = "3")]
    Metadata(MetadataMessage),
    #[prost(message, tag = "4")]
    Start(PositionMessage),
    #[prost(message, tag = "5")]
    Binding(BindingMessage),
    #[prost(bytes, tag = "6")]
    Readmitted(Vec<u8>),
    #[prost(bytes, tag = "7")]
    Forgotten(Vec<u8>),
    #[prost(message, tag = "8")]
    Snapshot(SnapshotMessage),
    #[prost(bytes, tag = "9")]
    Paused(Vec<u8>),
    #[prost(bytes, tag = "10")]
    Resumed(Vec<u8>),
    #[prost(message, tag = "11")]
    Identified(IdentityMessage),
    #[prost(uint64, tag = "12")]
    ReservedEpochs(u64),
    /// A start with a stop. A kind of its own: a version that knows no stops must not read past one.
    #[prost(message, tag = "13")]
    Stretch(PositionMessage),
    #[prost(bool, tag = "14")]
    AllFound(bool),
    /// Metadata with a target, a kind of its own as a start with a stop is.
    #[prost(message, tag = "15")]
    Interim(MetadataMessage),
    #[prost(message, tag = "16")]
    End(EndMessage),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetadataMessage {
    #[prost(uint64, tag = "1")]
    pub(super) epoch: u64,
    #[prost(bytes, tag = "2")]
    pub(super) metadata: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(super) at: u64,
    /// What is in force after it.
    #[prost(bytes, optional, tag = "4")]
    pub(super) target: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EndMessage {
    #[prost(bytes, tag = "1")]
    pub(super) split: Vec<u8>,
    /// Without it the split is not drained any more.
    #[prost(bytes, optional, tag = "2")]
    pub(super) end: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IdentityMessage {
    #[prost(bytes, tag = "1")]
    pub(super) split: Vec<u8>,
    #[prost(bytes, tag = "2")]
    pub(super) identity: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PositionMessage {
    #[prost(bytes, tag = "1")]
    pub(super) split: Vec<u8>,
    #[prost(bytes, tag = "2")]
    pub(super) position: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(super) quarantined: bool,
    #[prost(bool, tag = "4")]
    pub(super) paused: bool,
    #[prost(bytes, optional, tag = "5")]
    pub(super) identity: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) unlisted_since: Option<u64>,
    #[prost(bytes, optional, tag = "7")]
    pub(super) stop: Option<Vec<u8>>,
    #[prost(bytes, optional, tag = "8")]
    pub(super) end: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BindingMessage {
    #[prost(uint64, tag = "1")]
    pub(super) tick: u64,
    #[prost(message, repeated, tag = "2")]
    pub(super) ranges: Vec<RangeMessage>,
    #[prost(message, repeated, tag = "3")]
    pub(super) errors: Vec<ErrorMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeMessage {
    #[prost(bytes, tag = "1")]
    pub(super) split: Vec<u8>,
    #[prost(bytes, tag = "2")]
    pub(super) from: Vec<u8>,
    #[prost(bytes, tag = "3")]
    pub(super) to: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ErrorMessage {
    #[prost(bytes, tag = "1")]
    pub(super) split: Vec<u8>,
    #[prost(bytes, tag = "2")]
    pub(super) position: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(super) message: String,
    /// From where on the split is read, if what is before it is skipped, or of the split as which it
    /// starts over.
    #[prost(bytes, optional, tag = "4")]
    pub(super) next: Option<Vec<u8>>,
    #[prost(bytes, optional, tag = "5")]
    pub(super) started_over: Option<Vec<u8>>,
    /// Where that one stops, if the one before does. Not in logs of versions that left it its stop.
    #[prost(bytes, optional, tag = "6")]
    pub(super) stop: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SnapshotMessage {
    #[prost(uint32, tag = "1")]
    pub(super) version: u32,
    #[prost(uint64, tag = "2")]
    pub(super) incarnation: u64,
    #[prost(uint64, tag = "3")]
    pub(super) reserved: u64,
    #[prost(uint64, optional, tag = "4")]
    pub(super) bound: Option<u64>,
    #[prost(message, optional, tag = "5")]
    pub(super) metadata: Option<MetadataMessage>,
    #[prost(uint64, tag = "6")]
    pub(super) count: u64,
    #[prost(message, repeated, tag = "7")]
    pub(super) splits: Vec<PositionMessage>,
    #[prost(bool, tag = "8")]
    pub(super) rewound: bool,
    #[prost(uint64, tag = "9")]
    pub(super) split_epochs: u64,
    #[prost(bool, tag = "10")]
    pub(super) all_found: bool,
    /// Without it, since builds did not write it, the metadata in force is taken for the first.
    #[prost(message, optional, tag = "11")]
    pub(super) first: Option<FirstMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FirstMessage {
    #[prost(bytes, optional, tag = "1")]
    pub(super) metadata: Option<Vec<u8>>,
}
