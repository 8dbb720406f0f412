//! Directories that only their owner can read.

use std::fs::DirBuilder;
use std::path::Path;

use anyhow::Context;

/// Makes a directory and its missing parents, readable only by the owner. An existing directory does not change.
pub(crate) fn make_private(directory: &Path) -> anyhow::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).with_context(|| {
        format!("cannot make the data directory {}; make it yourself, or name another with --data", directory.display())
    })
}
