//! Conversations with 1, 2, 5 and 100 splits: the same turns on each.
//!
//! The model is shown the same for all of them: a summary, the newest messages, and the measured turns. The history
//! cache finds a conversation by the name that was last used. So two names that alternate make Herma read the
//! conversation from the store for every turn. One of the two is the id of the conversation's first session.

use std::io;

use crate::bench::child::Child;
use crate::bench::load;
use crate::bench::options::Options;
use crate::bench::sections::talk::{Block, Client, Split, turn};
use crate::bench::statistics::{median, median_ratio};
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::Testbed;

const DEPTHS: [usize; 4] = [1, 2, 5, 100];
/// A context window so large that compactions and prepared summaries happen only on request.
const WINDOW: &str = "16000";
/// Requests of a block. The number is even, so that both names are used equally often.
const COUNT: usize = 20;
/// Conversations of each depth in a round.
const PASSES: usize = 4;

/// The goal for the cost of a turn, as a multiple of the cost after one split.
const GOAL: f64 = 1.2;
/// The same goal for the id of the first session.
const OLD_ID_GOAL: f64 = 1.1;

/// The measurements on one conversation.
struct Pass {
    store: Block,
    memory: Block,
    row: Block,
}

/// Measures conversations of all depths beside each other.
pub(super) async fn run(testbed: &Testbed, options: &Options) -> io::Result<()> {
    let herma = testbed.launch_herma("splits", &[("HERMA_CONTEXT_WINDOW", WINDOW)])?;
    let mut client = Client::connect(&herma).await?;
    pass(&herma, &mut client, 0).await?;
    let mut passes = Vec::new();
    for number in 0..options.rounds() * PASSES {
        passes.push(pass(&herma, &mut client, number).await?);
    }
    println!(
        "One client, {} fresh conversations of each depth, {COUNT} requests of each kind on each. \
         After one split as it is,\n\
         after more as a multiple of that. Latency in milliseconds, p50:\n",
        passes.len()
    );
    let of_first = Block::p50_of_first_name;
    print(
        &passes,
        " ms",
        &[
            ("turn, from memory", GOAL, &|pass| pass.memory.p50()),
            ("turn, from the store", GOAL, &|pass| pass.store.p50()),
            ("turn by the first session's id, from the store", OLD_ID_GOAL, &|pass| of_first(&pass.store)),
            ("GET /api/sessions/{first session's id}", OLD_ID_GOAL, &|pass| pass.row.p50()),
        ],
    );
    println!("\nCPU per request in microseconds:\n");
    print(
        &passes,
        " µs",
        &[
            ("turn, from memory", GOAL, &|pass| pass.memory.cpu()),
            ("turn, from the store", GOAL, &|pass| pass.store.cpu()),
            ("GET /api/sessions/{first session's id}", OLD_ID_GOAL, &|pass| pass.row.cpu()),
        ],
    );
    Ok(())
}

type Row<'a> = (&'a str, f64, &'a dyn Fn(&Pass) -> f64);

fn print(passes: &[Vec<Pass>], unit: &str, rows: &[Row<'_>]) {
    let splits = DEPTHS.map(|depth| format!("{depth} split{}", if depth == 1 { "" } else { "s" }));
    let mut table = Table::new(["what".to_owned()].into_iter().chain(splits));
    for (name, goal, number) in rows {
        let of = |place: usize| passes.iter().map(|pass| number(&pass[place])).collect::<Vec<_>>();
        let mut cells = vec![(*name).to_owned(), format!("{:.2}{unit}", median(&of(0)))];
        cells.extend((1..DEPTHS.len()).map(|place| at_most(median_ratio(&of(place), &of(0)), *goal, "")));
        table.row(cells);
    }
    table.print();
}

/// Creates a conversation of each depth, then measures kind by kind. Every second pass has the opposite order.
async fn pass(herma: &Child, client: &mut Client<'_>, number: usize) -> io::Result<Vec<Pass>> {
    let mut conversations = Vec::new();
    for depth in DEPTHS {
        conversations.push(Split::make(herma, depth).await?);
    }
    let mut order: Vec<usize> = (0..DEPTHS.len()).collect();
    if number % 2 == 1 {
        order.reverse();
    }
    let mut kinds: [Vec<(usize, Block)>; 3] = Default::default();
    for (kind, blocks) in kinds.iter_mut().enumerate() {
        for &place in &order {
            let Split { first, stable, .. } = &conversations[place];
            let requests = match kind {
                0 => vec![turn(first), turn(stable)],
                1 => vec![turn(stable)],
                _ => vec![load::show(first)],
            };
            blocks.push((place, client.block(&requests, COUNT).await?));
        }
        blocks.sort_by_key(|(place, _)| *place);
    }
    check(client, &conversations).await?;
    let [store, memory, row] = kinds.map(|blocks| blocks.into_iter().map(|(_, block)| block));
    let blocks = store.zip(memory).zip(row);
    Ok(blocks.map(|((store, memory), row)| Pass { store, memory, row }).collect())
}

/// Checks that no conversation was compacted during the measurement, and that all have the same number of prompt
/// tokens.
async fn check(client: &mut Client<'_>, conversations: &[Split]) -> io::Result<()> {
    let mut shown = None;
    for conversation in conversations {
        let told = client.ask(&conversation.first).await?;
        let (depth, found, prompt) = (conversation.depth, told.compactions, told.prompt);
        if found != depth as u64 {
            return Err(io::Error::other(format!("{depth} splits were asked for, and there are {found}")));
        }
        if *shown.get_or_insert(prompt) != prompt {
            let message = format!("after {depth} splits the model is shown {prompt} tokens, after one {shown:?}");
            return Err(io::Error::other(message));
        }
    }
    Ok(())
}
