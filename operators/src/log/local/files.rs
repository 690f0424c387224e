//! What a log asks of a file system: little, so that tests can take its place.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file system.
pub(super) trait Files: Debug + Send {
    /// The files of a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// How many bytes a file has.
    fn length(&self, path: &Path) -> io::Result<u64>;

    /// The bytes of a file from `at` on: `length` of them, or fewer if it ends there.
    fn read(&self, path: &Path, at: u64, length: usize) -> io::Result<Vec<u8>>;

    /// Makes a file, or empties the one that is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Opens a file to write to it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes durable which files there are in a folder.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file that is written to.
pub(super) trait OpenFile: Debug + Send {
    /// Writes all of `bytes`; after an error, perhaps some.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes it shorter.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Makes durable what was written since the last time. After an error that is known of no byte of
    /// it, also not when it succeeds the next time.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system of the machine.
#[derive(Debug)]
pub(super) struct LocalFiles;

impl Files for LocalFiles {
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn read(&self, path: &Path, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        let rest = file.metadata()?.len().saturating_sub(at);
        let mut bytes = vec![0; length.min(usize::try_from(rest).unwrap_or(usize::MAX))];
        file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn OpenFile>> {
        Ok(Box::new(OpenOptions::new().write(true).open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

impl OpenFile for File {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
