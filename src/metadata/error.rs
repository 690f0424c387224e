//! Why there is no answer from a metadata service.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use timely_splits::health::FailureKind;

use crate::model::{ClusterId, StreamId, TopicName};

/// Why a metadata service gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The file cannot be read.
    #[error("metadata file {}: reading failed", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        #[source]
        source: io::Error,
    },
    /// The path is that of a directory.
    #[error("metadata file {}: is a directory; expected a file", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The file is too large to be metadata.
    #[error("metadata file {}: larger than {bytes_max} bytes, which is the most that is read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The greatest size that is read.
        bytes_max: u64,
    },
    /// The name of the file does not say in which notation it is written.
    #[error(
        "metadata file {}: unknown notation; expected a name that ends in .yaml, .yml, .json or .toml",
        path.display()
    )]
    Notation {
        /// The file.
        path: PathBuf,
    },
    /// The file kept changing until the deadline.
    #[error(
        "metadata file {}: still changing; expected two equal reads {} ms apart",
        path.display(),
        settle.as_millis()
    )]
    Unsettled {
        /// The file.
        path: PathBuf,
        /// How long the file must stay the same.
        settle: Duration,
    },
    /// The file has mistakes, all of which are listed in the order of the file.
    #[error("metadata file {}: {}", path.display(), Listed(mistakes))]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// What is wrong in it; never empty.
        mistakes: Vec<Mistake>,
    },
    /// A stream of the answer names a cluster that the answer does not describe.
    #[error(
        "stream {stream}: cluster '{cluster}' is not described; expected one of the described clusters{}",
        DidYouMean(nearest.as_ref().map(ClusterId::as_str))
    )]
    Undescribed {
        /// The stream.
        stream: StreamId,
        /// The cluster that it names.
        cluster: ClusterId,
        /// The described cluster with the most similar name.
        nearest: Option<ClusterId>,
    },
    /// Two streams that are read say different things about where reading one topic starts.
    #[error(
        "topic {cluster}/{topic}: '{rule}' is {} in stream '{}' and {} in stream '{}'; expected the \
         same in both, or only in one",
        said[0].1, said[0].0, said[1].1, said[1].0
    )]
    Contradictory {
        /// The cluster.
        cluster: ClusterId,
        /// The topic of it that both read.
        topic: TopicName,
        /// The field, as a metadata file has it.
        rule: &'static str,
        /// The streams, each with its rule in words.
        said: Box<[(StreamId, String); 2]>,
    },
    /// The answer is older than one that was given before. It changes nothing.
    #[error("metadata service: the answer is old: its version is {version}, after {newest}")]
    Old {
        /// The version of the answer.
        version: u64,
        /// The greatest version that was answered.
        newest: u64,
    },
    /// The service has not answered by the deadline. Its answer is still waited for.
    #[error("metadata service: no answer after {:.1} s; it is still waited for", waited.as_secs_f64())]
    Late {
        /// How long it has been waited for.
        waited: Duration,
    },
    /// The service panicked; it is asked again.
    #[error("metadata service: panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
    /// The service could not be asked.
    #[error("metadata service: asking failed")]
    Unavailable {
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The service answered what cannot be used.
    #[error("metadata service: the answer cannot be used")]
    Invalid {
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl MetadataError {
    /// A service that could not be asked, because of `source`; asking again may help.
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let source = source.into();
        Self::Unavailable { source }
    }

    /// An answer that cannot be used, because of `source`; somebody has to change something.
    pub fn invalid(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let source = source.into();
        Self::Invalid { source }
    }

    /// What can be done about it.
    ///
    /// A file that cannot be read is definite: somebody has to put it there. It is looked for at
    /// the service's own interval all the same.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Unreadable { .. }
            | Self::Directory { .. }
            | Self::TooLarge { .. }
            | Self::Notation { .. }
            | Self::Mistakes { .. }
            | Self::Undescribed { .. }
            | Self::Contradictory { .. }
            | Self::Invalid { .. } => FailureKind::Definite,
            Self::Unsettled { .. }
            | Self::Old { .. }
            | Self::Late { .. }
            | Self::Panicked { .. }
            | Self::Unavailable { .. } => FailureKind::Transient,
        }
    }

    /// The whole story in one text: this error and what caused it.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = self.to_string();
        let mut source = self.source();
        while let Some(error) = source {
            words.push_str(": ");
            words.push_str(&error.to_string());
            source = error.source();
        }
        words
    }
}

/// One mistake in a metadata file, and what was expected in its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Mistake {
    /// The line, from one.
    pub line: usize,
    /// The column in characters, from one.
    pub column: usize,
    /// The path of the field, as `streams.orders.east.topics[0]`; empty if it is the whole file.
    pub field: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// The known name that is most similar to what is written.
    pub nearest: Option<String>,
}

impl Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        let nearest = DidYouMean(self.nearest.as_deref());
        write!(f, "{}{nearest}", self.message)
    }
}

/// The end of a message about a name that is not known.
pub(crate) struct DidYouMean<'a>(pub(crate) Option<&'a str>);

impl Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |name| write!(f, "; did you mean '{name}'?"))
    }
}

/// The most mistakes that a message lists: a person mends them from the first one on.
const MISTAKES_MAX: usize = 20;

/// Mistakes: one on the same line, several on a line each, and how many more there are.
struct Listed<'a>(&'a [Mistake]);

impl Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [mistake] = self.0 {
            return write!(f, "{mistake}");
        }
        write!(f, "{} mistakes", self.0.len())?;
        let mut mistakes = self.0.iter();
        let mut shown = mistakes.by_ref().take(MISTAKES_MAX);
        shown.try_for_each(|mistake| write!(f, "\n  {mistake}"))?;
        match mistakes.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
