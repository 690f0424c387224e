//! What streams consist of, and who says so.
//!
//! The problem: which topics of which clusters make up a stream changes while a dataflow runs, and
//! what tells about it may be slow, wrong, half-written or away. So it is asked on a thread of its
//! own, each answer is complete or an error, and an error changes nothing.
//!
//! * A [`MetadataService`] answers: a [`FixedMetadataService`], a [`FileMetadataService`], or one's
//!   own.
//! * A [`Subscription`] says which of the streams a source reads.
//! * [`MetadataError`] tells a service that could not be asked from one that answers nonsense, and
//!   lists every [`Mistake`] of a file.

mod agreement;
mod error;
mod file;
mod fixed;
mod format;
pub(crate) mod mask;
mod nearest;
mod properties;
mod reference;
pub(crate) mod secret;
mod service;
pub(crate) mod subscription;
pub(crate) mod thread;

pub(crate) use self::error::DidYouMean;
pub use self::error::{MetadataError, Mistake};
pub use self::file::FileMetadataService;
pub use self::fixed::FixedMetadataService;
pub use self::properties::PropertyMistake;
pub use self::service::MetadataService;
pub use self::subscription::{Subscription, SubscriptionError};
pub use self::thread::MetadataOptions;
pub use timely_splits::coordinator::{FailureThreshold, GivingUp, ShrinkGuard};
