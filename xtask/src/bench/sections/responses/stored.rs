//! The bytes that a turn adds to the database. Each kind of turn has a database of its own.

use std::io;

use futures_util::future::try_join_all;

use crate::bench::load::{Api, Pace, Shape, Talk};
use crate::bench::options::Options;
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::{Target, Testbed};

/// Conversations in each database.
const CONVERSATIONS: usize = 16;

/// The goal for the bytes of a turn, as a multiple of a chat turn's.
const GOAL: f64 = 1.5;
/// The goal for the bytes of a turn in the second half of a conversation, as a multiple of the first half.
const GROWTH_GOAL: f64 = 1.1;

/// Measures every API, whole and streamed.
pub(super) async fn run(testbed: &Testbed, options: &Options) -> io::Result<()> {
    let half = options.long_turns() / 10;
    println!(
        "Bytes that a turn adds to the database, {CONVERSATIONS} conversations of {} turns, the latter half of them\n\
         beside the former:\n",
        2 * half
    );
    let mut table = Table::new(["turn", "answer", "bytes a turn", "/ chat", "latter / former half"]);
    for (shape, answer) in [(Shape::Whole, "whole"), (Shape::Streamed(Pace::Usual), "streamed")] {
        let mut chat = None;
        for api in Api::NAMED {
            let data = format!("{}-{answer}", api.name());
            let herma = testbed.launch(Target::Herma, &data)?;
            let talks = (0..CONVERSATIONS).map(|_| Talk::begin(herma.address(), api, shape));
            let mut talks = try_join_all(talks).await?;
            let mut sizes = vec![testbed.database_bytes(&data)? as f64];
            for _ in 0..2 {
                try_join_all(talks.iter_mut().map(|talk| talk.turns(half))).await?;
                sizes.push(testbed.database_bytes(&data)? as f64);
            }
            let [former, latter] = [0, 1].map(|at| (sizes[at + 1] - sizes[at]) / (half * CONVERSATIONS) as f64);
            let each = f64::midpoint(former, latter);
            let ratio = each / *chat.get_or_insert(each);
            table.row([
                api.name().to_owned(),
                answer.to_owned(),
                format!("{each:.0}"),
                if shape == Shape::Whole { at_most(ratio, GOAL, "") } else { format!("{ratio:.2}") },
                at_most(latter / former, GROWTH_GOAL, ""),
            ]);
        }
    }
    table.print();
    Ok(())
}
