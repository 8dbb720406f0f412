//! `GET /v1/responses/{id}` in conversations of one turn and of many.

use std::io;

use futures_util::future::try_join_all;

use crate::bench::child::Child;
use crate::bench::load::{self, Api, Shape, Talk};
use crate::bench::options::Options;
use crate::bench::sections::talk::{Block, Client};
use crate::bench::statistics::{median, median_ratio};
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::{Target, Testbed};

/// Reads that are measured together.
const COUNT: usize = 50;
/// Long conversations per round. Each is measured beside a short one.
const PASSES: usize = 2;

/// The goal for the cost of a read in a long conversation, as a multiple of one in a short one.
const GOAL: f64 = 1.2;

/// The ids of the responses that are read: one from a conversation with one turn, two from a long one.
struct Responses {
    alone: String,
    first_of_many: String,
    last_of_many: String,
}

/// Measures all three kinds beside each other.
pub(super) async fn run(testbed: &Testbed, options: &Options) -> io::Result<()> {
    let herma = testbed.launch(Target::Herma, "reads")?;
    let (turns, passes) = (options.long_turns(), options.rounds() * PASSES);
    let responses = try_join_all((0..passes).map(|_| make(&herma, turns))).await?;
    let mut client = Client::connect(&herma).await?;
    let mut measured: [Vec<Block>; 3] = Default::default();
    for (number, responses) in responses.iter().enumerate() {
        let Responses { alone, first_of_many, last_of_many } = responses;
        let mut order: Vec<_> = [alone, first_of_many, last_of_many].into_iter().enumerate().collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for (place, response) in order {
            measured[place].push(client.block(&[load::fetch(response)], COUNT).await?);
        }
    }
    println!(
        "GET /v1/responses/{{id}}, one client, {passes} conversations of each length, {COUNT} reads of each response:\n"
    );
    let last = format!("last of {turns}");
    let first = format!("first of {turns}");
    let mut table = Table::new(["response", "latency p50", "latency / alone", "CPU / alone"]);
    for (name, blocks) in ["alone", &first, &last].into_iter().zip(&measured) {
        let of = |blocks: &[Block], number: fn(&Block) -> f64| blocks.iter().map(number).collect::<Vec<_>>();
        let ratio = |number| at_most(median_ratio(&of(blocks, number), &of(&measured[0], number)), GOAL, "");
        let latency = format!("{:.2} ms", median(&of(blocks, Block::p50)));
        table.row([name.to_owned(), latency, ratio(Block::p50), ratio(Block::cpu)]);
    }
    table.print();
    Ok(())
}

/// Creates a conversation of one turn and one of many.
async fn make(herma: &Child, turns: usize) -> io::Result<Responses> {
    let begin = || Talk::begin(herma.address(), Api::Slug, Shape::Whole);
    let alone = begin().await?.response()?;
    let mut long = begin().await?;
    let first_of_many = long.response()?;
    long.turns(turns - 1).await?;
    Ok(Responses { alone, first_of_many, last_of_many: long.response()? })
}
