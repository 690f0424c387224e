//! What a split is: a file of the folder.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use timely_splits::split::{Metadata, Split};

/// A split: a file of the folder, by its name. Its position is a number of bytes.
///
/// A file that is replaced by another one of its name is taken for the same, truncated or grown. A
/// source that has to tell them apart has evidence of it as its `Identity`: the inode, for example.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct LogFile(pub(crate) Arc<str>);

impl Display for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Split for LogFile {
    type Position = u64;
    type Identity = ();
    type Metadata = Folder;
}

/// The metadata: which files there are. Each is a group of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Folder(pub(crate) BTreeSet<LogFile>);

impl Metadata<LogFile> for Folder {
    type Group = LogFile;

    fn group_of(file: &LogFile) -> LogFile {
        file.clone()
    }

    fn lists_group(&self, file: &LogFile) -> bool {
        self.0.contains(file)
    }

    fn changed_groups(&self, next: &Self) -> Vec<LogFile> {
        self.0.symmetric_difference(&next.0).cloned().collect()
    }
}
