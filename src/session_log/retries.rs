//! Retries of one step: chains of numbers, each announced and then started.

use super::fault::FaultKind;
use super::json::Object;

/// The chains of the open step.
#[derive(Debug, Clone, Default)]
pub(super) struct Retries {
    chains: Vec<Chain>,
}

#[derive(Debug, Clone)]
struct Chain {
    id: Vec<u8>,
    last: u64,
    started: bool,
}

impl Retries {
    pub(super) fn clear(&mut self) {
        self.chains.clear();
    }

    /// Takes a retry, or the start of one; why it does not go on with its chain, otherwise.
    pub(super) fn take(
        &mut self,
        data: &Object<'_>,
        started: bool,
    ) -> Result<(), (FaultKind, &'static str)> {
        let id = data.text("retryId").filter(|id| !id.is_empty());
        let (Some(id), Some(number)) = (id, data.count("retry")) else {
            return Err((FaultKind::Message, "a retry without an id and a number"));
        };
        let chain = self.chains.iter_mut().find(|c| *c.id == *id);
        let why = match (chain, started) {
            (Some(chain), true) if chain.last == number && !chain.started => {
                chain.started = true;
                return Ok(());
            }
            (_, true) => "a retry starts that was not announced, or has started",
            (Some(chain), false) if number == chain.last + 1 => {
                (chain.last, chain.started) = (number, false);
                return Ok(());
            }
            (Some(_), false) => "a retry whose number does not follow",
            (None, false) => {
                self.chains.push(Chain {
                    id: id.into_owned(),
                    last: number,
                    started: false,
                });
                return Ok(());
            }
        };
        Err((FaultKind::Lifecycle, why))
    }
}
