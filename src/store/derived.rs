//! What every derived asset can do: say in what state it is, be brought up to date or made anew,
//! be verified. Derived data is made from the archive alone; it may vanish at any moment, and
//! nothing else depends on it.

use crate::disk::{Capture, Root};
use crate::error::Result;
use crate::model::finding::CheckId;
use crate::model::interrupt::{Interrupt, Until};
use crate::model::progress::Progress;
use crate::store::lexical::{self, Refreshed, Survey};

/// One kind of derived data.
pub trait Derived {
    /// Its name in documents and below `derived/`.
    fn name(&self) -> &'static str;

    /// The check that looks at it.
    fn check(&self) -> CheckId;

    /// In what state it is, from a few rows of it and of the archive; `None` without an archive.
    /// Once `until` is reached, the answer says nothing.
    ///
    /// # Errors
    /// `io`, `permission-denied`, or what the archive says. Damage is a state.
    fn state(&self, root: &Root, until: &Until) -> Result<Option<Survey>>;

    /// Brings it up to date, or makes it anew; with `deep` it is verified first. `None` without an
    /// archive. No connection to the archive may be open for writing.
    ///
    /// # Errors
    /// `interrupted`, `terminated`, `no-space`, `permission-denied`, `io`.
    fn refresh(
        &self,
        cap: Capture<'_>,
        deep: bool,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<Option<Refreshed>>;

    /// Makes it anew, whatever is there. `None` without an archive.
    ///
    /// # Errors
    /// As [`Derived::refresh`].
    fn renew(
        &self,
        cap: Capture<'_>,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<Option<Refreshed>>;

    /// Reads all of it; what is wrong, or `None`. Once `until` is reached, the answer says nothing.
    ///
    /// # Errors
    /// `io`, `permission-denied`, `lock-busy`.
    fn verify(&self, root: &Root, until: &Until) -> Result<Option<String>>;
}

/// Every derived asset that this version makes.
#[must_use]
pub fn assets() -> [&'static dyn Derived; 1] {
    [&Lexical]
}

/// The lexical index.
#[derive(Debug, Clone, Copy)]
pub struct Lexical;

impl Derived for Lexical {
    fn name(&self) -> &'static str {
        "lexical"
    }

    fn check(&self) -> CheckId {
        CheckId::DerivedLexical
    }

    fn state(&self, root: &Root, until: &Until) -> Result<Option<Survey>> {
        Ok(lexical::look_until(root, until)?.map(|looked| looked.survey))
    }

    fn refresh(
        &self,
        cap: Capture<'_>,
        deep: bool,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<Option<Refreshed>> {
        lexical::refresh(cap, deep, progress, interrupt)
    }

    fn renew(
        &self,
        cap: Capture<'_>,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<Option<Refreshed>> {
        lexical::renew(cap, progress, interrupt)
    }

    fn verify(&self, root: &Root, until: &Until) -> Result<Option<String>> {
        lexical::verify(root, until)
    }
}
