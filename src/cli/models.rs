//! `cass models status`

use super::context::Context;
use super::emit::Human;
use super::page::Page;
use crate::disk::Root;
use crate::error::Result;
use crate::report::envelope::Report;
use crate::report::models::{FallbackMode, ModelBlock, ModelState, ModelsStatusBody};
use crate::report::search::LexicalState;
use crate::store::lexical::look;

pub(super) fn status(ctx: &Context) -> Result<Report<ModelsStatusBody>> {
    Ok(Report::ok(ModelsStatusBody {
        model_state: ModelState::NotInstalled,
        fallback_mode: FallbackMode::Lexical,
        // A model has no bearing on an archive that can't be read: the check tells of that.
        lexical: lexical(ctx).unwrap_or(None),
        models: vec![ModelBlock {
            purpose: "semantic search".to_owned(),
            state: ModelState::NotInstalled,
            supported: false,
        }],
    }))
}

fn lexical(ctx: &Context) -> Result<Option<LexicalState>> {
    let Some(root) = Root::open(ctx.env.data_dir())? else {
        return Ok(Some(LexicalState::Missing));
    };
    Ok(Some(look(&root)?.map_or(LexicalState::Missing, |found| {
        LexicalState::of(&found.survey.state)
    })))
}

impl Human for ModelsStatusBody {
    fn page(_: &Report<Self>, page: &mut Page) {
        page.fact("semantic search   no model is installed, and this version uses none");
    }

    fn verdict(_: &Report<Self>) -> String {
        "Search compares words.".to_owned()
    }
}
