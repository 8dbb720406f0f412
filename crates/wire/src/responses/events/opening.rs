//! Begins items.

use super::{Entry, Events, PartKind};
use crate::client_tools::{ClientTools, CustomInput};
use crate::responses::item::{Item, ItemStatus, Part};
use crate::responses::transcript::{begun_call, message_id, reasoning_id};

impl Events {
    /// Adds an item to the output and emits that. Returns its index.
    pub(super) fn open(&mut self, item: Item) -> usize {
        let at = self.entries.len();
        let custom = matches!(item, Item::CustomToolCall { .. }).then(CustomInput::default);
        self.entries.push(Entry { item, is_open: true, custom });
        self.emit_item("response.output_item.added", at);
        at
    }

    /// The items of the message that is being said.
    fn own_entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().skip(self.first_entry)
    }

    /// The index of the open reasoning item. Begins one if there is none.
    pub(super) fn reasoning_entry(&mut self) -> usize {
        let last = self.entries.len().wrapping_sub(1);
        if self.entries.last().is_some_and(|entry| entry.is_open && matches!(entry.item, Item::Reasoning { .. })) {
            return last;
        }
        self.end_last();
        let nth = self.own_entries().filter(|entry| matches!(entry.item, Item::Reasoning { .. })).count();
        let id = reasoning_id(self.message, nth);
        let at = self.open(Item::Reasoning { id, status: ItemStatus::InProgress, summary: Vec::new() });
        if let Item::Reasoning { summary, .. } = &mut self.entries[at].item {
            summary.push(Part::SummaryText { text: String::new() });
        }
        self.emit_part("response.reasoning_summary_part.added", at, 0);
        at
    }

    /// The indices of the message and of its part that a text or a refusal continues. Begins them if needed.
    pub(super) fn part_entry(&mut self, kind: PartKind) -> (usize, usize) {
        let at = match self.entries.last() {
            Some(Entry { item: Item::Message { .. }, is_open: true, .. }) => self.entries.len() - 1,
            _ => self.begin_message(),
        };
        let Item::Message { content, .. } = &self.entries[at].item else { return (at, 0) };
        let continues = match content.last() {
            Some(Part::OutputText { .. }) => kind == PartKind::Text,
            Some(Part::Refusal { .. }) => kind == PartKind::Refusal,
            _ => false,
        };
        let parts = content.len();
        if continues {
            return (at, parts - 1);
        }
        self.end_part(at);
        if let Item::Message { content, .. } = &mut self.entries[at].item {
            content.push(match kind {
                PartKind::Refusal => Part::Refusal { refusal: String::new() },
                PartKind::Text => Part::output_text(""),
            });
        }
        self.emit_part("response.content_part.added", at, parts);
        (at, parts)
    }

    fn begin_message(&mut self) -> usize {
        self.end_last();
        let nth = self.own_entries().filter(|entry| matches!(entry.item, Item::Message { .. })).count();
        let id = message_id(self.message, nth);
        let (status, content) = (ItemStatus::InProgress, Vec::new());
        self.open(Item::Message { id, status, role: "assistant", content, phase: None })
    }

    /// Begins the item of a call, with the arguments that came before its name.
    pub(super) fn begin_call(&mut self, index: u32) {
        self.end_last();
        let call = &mut self.calls[index as usize];
        let arguments = std::mem::take(&mut call.early_arguments);
        let tools = self.client_tools.get_or_insert_with(|| ClientTools::of_repeated(self.about.echo.get("tools")));
        let tool = tools.called(&call.name);
        let item = begun_call(self.message, index as usize, call.id.clone(), call.name.clone(), tool);
        let at = self.open(item);
        self.calls[index as usize].entry = Some(at);
        if !arguments.is_empty() {
            self.arguments(at, &arguments);
        }
    }
}
