//! Private directories, and files that are written whole or not at all.

use crate::DeployError;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Creates a directory (0700) and its parents, unless it exists.
pub(crate) fn make_private(path: &Path) -> Result<(), DeployError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(DeployError::io("create", path))
}

/// Writes the file `name` in `dir` whole or not at all: it is written under another name, synced,
/// and renamed over the old file.
pub(crate) fn write_whole(dir: &Path, name: &str, text: &str) -> Result<(), DeployError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let stem = name.trim_end_matches(".json");
    let (aside, file) = (dir.join(format!("{stem}.new")), dir.join(name));
    let written = || {
        let mut options = fs::OpenOptions::new();
        let mut f = options.write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
        f.write_all(text.as_bytes())?;
        f.sync_all()?;
        fs::rename(&aside, &file)?;
        fs::File::open(dir)?.sync_all()
    };
    written().map_err(DeployError::io("write", &file))
}
