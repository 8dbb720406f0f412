//! `session/list`: the conversations of a person, most recently used first.

use herma_store::ListFilter;
use herma_wire::resource::rfc3339;

use crate::agent::{Agent, Answered, Handled};
use crate::error::{bad_params, of_gateway};
use crate::schema::{ListSessionsRequest, ListSessionsResponse, SessionInfo};
use crate::session::id_of;
use crate::setup::{absolute, described};

/// Most rows of a page.
const PAGE: usize = 100;

impl Agent {
    /// A page of conversations. One that no editor made is listed with the agent's own directory.
    pub(crate) async fn list_sessions(&self, request: ListSessionsRequest) -> Handled {
        let cwd = request.cwd.as_deref().map(absolute).transpose()?.map(|cwd| cwd.to_string());
        let mut filter = ListFilter { user_facing: Some(true), cwd, limit: PAGE, ..ListFilter::default() };
        if let Some(cursor) = &request.cursor {
            let cursor = filter.read_cursor(cursor);
            filter.after = Some(cursor.map_err(|why| bad_params(&format!("cursor {why}")))?);
        }
        let page = self.sessions().list(filter.clone()).await.map_err(|error| of_gateway(&error))?;
        let rows = page.rows.iter().map(|row| {
            let id = id_of(row.facts.id);
            let cwd = row.editor.cwd.as_deref().map_or_else(|| self.settings.cwd.clone(), Into::into);
            SessionInfo::new(id.clone(), cwd)
                .title(row.title.clone())
                .updated_at(rfc3339(row.updated_at))
                .meta(described(&id, row))
        });
        let next = page.next.map(|next| filter.write_cursor(next));
        Ok(Answered::new(&ListSessionsResponse::new(rows.collect()).next_cursor(next)))
    }
}
