//! The archive's sources by key, a page at a time: they are met beside the mirror's heads, which
//! come by key too, so that neither has to be held as a whole.

use crate::error::Result;
use crate::model::conversation::ArchivedSource;
use crate::model::source::SourceKey;
use crate::store::archive::ArchiveReader;

/// Sources of the archive that are read at once.
const PAGE: u32 = 256;

/// The sources that were not taken yet.
pub(in crate::doctor) struct Archived<'a> {
    archive: Option<&'a ArchiveReader>,
    page: std::vec::IntoIter<ArchivedSource>,
    next: Option<ArchivedSource>,
}

impl<'a> Archived<'a> {
    pub(in crate::doctor) fn new(archive: Option<&'a ArchiveReader>) -> Result<Self> {
        let mut all = Archived {
            archive,
            page: Vec::new().into_iter(),
            next: None,
        };
        all.advance(None)?;
        Ok(all)
    }

    fn advance(&mut self, after: Option<SourceKey>) -> Result<()> {
        self.next = self.page.next();
        if self.next.is_none()
            && let Some(archive) = self.archive
        {
            self.page = archive.sources_after(after, PAGE)?.into_iter();
            self.next = self.page.next();
        }
        Ok(())
    }

    /// The next source, if its key is at most `up_to`.
    pub(in crate::doctor) fn take(
        &mut self,
        up_to: Option<SourceKey>,
    ) -> Result<Option<ArchivedSource>> {
        let due = |s: &ArchivedSource| up_to.is_none_or(|key| s.key <= key);
        let Some(source) = self.next.take_if(|s| due(s)) else {
            return Ok(None);
        };
        self.advance(Some(source.key))?;
        Ok(Some(source))
    }
}
