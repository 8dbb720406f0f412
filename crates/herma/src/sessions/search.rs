//! `herma sessions search`: searches messages and titles.

use herma_gateway::{Sessions, now, rows};
use herma_model::limits::MAX_PAGE;
use herma_store::search::Wanted;
use herma_store::{Grouping, Hit, Search, SearchFilter};
use herma_wire::resource::Marks;

use super::id_prefix::short_id;
use crate::arguments::SearchFlags;
use crate::failure::Misuse;
use crate::table::Table;
use crate::terminal::Stream;
use crate::{excerpt, output, table};

/// The most characters of a snippet.
const SNIPPET: usize = 100;

/// Prints the hits, best first.
pub(super) async fn print(sessions: &Sessions<'_>, flags: &SearchFlags) -> anyhow::Result<()> {
    let wanted = Wanted::parse(&flags.query()).map_err(|error| Misuse(error.to_string()))?;
    let (filter, grouping) = (SearchFilter::default(), Grouping::Conversation);
    let mut search = Search { wanted, filter, grouping, after: None, limit: 0, now: now() };
    let mut hits = Vec::new();
    loop {
        search.limit = MAX_PAGE.min(flags.limit - hits.len());
        let page = sessions.search(search.clone()).await?;
        hits.extend(page.hits);
        search.after = page.next;
        if search.after.is_none() || hits.len() >= flags.limit {
            break;
        }
    }
    if flags.shared.json {
        for hit in &hits {
            output::answer(&serde_json::to_string(&rows::hit(hit, Marks::None))?)?;
        }
    } else if !hits.is_empty() {
        let cells: Vec<_> = hits.iter().map(cells).collect();
        let table = Table::new(["WHEN", "CONVERSATION", "ROLE", "SNIPPET"])
            .cutting("SNIPPET")
            .cutting("CONVERSATION")
            .sparing("ROLE")
            .sparing("WHEN");
        output::answer(&table.layout(&cells, Stream::Stdout))?;
    }
    if hits.is_empty() {
        output::note("nothing was found");
    } else if search.after.is_some() {
        output::note("there may be more; --limit sets how many are shown");
    }
    Ok(())
}

fn cells(hit: &Hit) -> [String; 4] {
    let snippet = Marks::None.write(hit.snippet.iter().map(|piece| (piece.text.as_str(), piece.found)));
    [
        table::minute(hit.created_at),
        hit.root.chosen().map_or_else(|| short_id(hit.conversation), output::printable),
        hit.message.map_or("title", |message| message.role.as_str()).to_owned(),
        excerpt::line(&snippet, SNIPPET),
    ]
}
