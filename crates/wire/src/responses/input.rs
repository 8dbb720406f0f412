//! Reads the `input` of a request: items in, chat messages out.
//!
//! One model message is several items but one chat message. So calls are added to the assistant's message before them,
//! and reasoning is stored beside the message that follows it.
//!
//! Items of Herma's own tool calls are history that the transcript has. They make no messages. The texts before and
//! after such a call are one message, because a turn is one message to clients that know nothing of its steps.

use std::collections::{HashMap, HashSet};

use herma_model::generation::ToolCall;
use herma_model::{CallId, Payload, Utterance};
use serde_json::value::RawValue;

use super::chat_style::{InputStyle, is_chat};
use super::content::{ChatPart, chat_content, parts};
use super::item::Item;
use super::references::APPROVAL_REQUEST;
use super::summary::open_summary;
use super::tools::ADDITIONAL_TOOLS;
use crate::bad_request::Flaw;
use crate::chat::{Extra, PHASE, RequestMessage, read_message, simple_user, tool_calls};
use crate::client_tools::{ClientCall, ClientTool, ClientTools, arguments_of};
use crate::json::{Object, Writer, elements, flag, text};

/// Calls of hosted tools, and their results. A client that was at OpenAI before may have them in its history. No model
/// server could read them, so they make no messages.
const HOSTED_ITEMS: [&str; 14] = [
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "computer_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "tool_search_call",
    "tool_search_output",
];

/// Stored items that references may name, by their ids.
pub type KeptItems = HashMap<String, Item>;

/// The messages of a list of items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Input {
    /// System and developer messages, in order. They are not part of the transcript.
    pub system: Vec<Payload>,
    /// The other messages, in order. Whether tool results match the calls is not checked here.
    pub messages: Vec<Utterance>,
    /// For each of `messages`, the index of its first item, so that a later error can name it.
    pub indices: Vec<usize>,
    /// Answers to questions with which an earlier response ended: the call, and whether it may be made.
    pub approvals: Vec<(CallId, bool)>,
}

/// Reads an input: a user's text, or items.
pub(super) fn read(raw: &RawValue, kept: &KeptItems, tools: &ClientTools, style: InputStyle) -> Result<Input, Flaw> {
    match raw.get().as_bytes().first() {
        Some(b'"') => Ok(Input { messages: vec![simple_user(&text(raw)?)], indices: vec![0], ..Input::default() }),
        Some(b'[') => read_items(&elements(raw)?, kept, tools, style),
        _ => Err(Flaw::new("must be a string or an array of items")),
    }
}

/// Reads items. A reference is read as the item that it names. `tools` has the names of the client's tools.
pub(crate) fn read_items(
    items: &[&RawValue],
    kept: &KeptItems,
    tools: &ClientTools,
    style: InputStyle,
) -> Result<Input, Flaw> {
    let mut reader = InputReader {
        kept,
        tools,
        style,
        referred: HashSet::new(),
        input: Input::default(),
        assistant: None,
        goes_on: false,
        reasoning: String::new(),
    };
    for (index, item) in items.iter().enumerate() {
        reader.item(index, item).map_err(|flaw| flaw.element(index))?;
    }
    reader.flush()?;
    Ok(reader.input)
}

/// Reads a chat message. What chat would refuse was refused before, under this API's names.
fn chat_message(json: String) -> Result<RequestMessage, Flaw> {
    let raw = RawValue::from_string(json).map_err(|_| Flaw::new("cannot be a message"))?;
    read_message(&raw)
}

/// Reads the id of a call, and the tool that it calls.
fn read_call(item: &mut Object<'_>, custom: bool) -> Result<(String, ClientTool), Flaw> {
    let (id, name) = (item.take_name("call_id")?, item.take_name("name")?);
    let namespace = item.take_text("namespace")?.filter(|namespace| !namespace.is_empty());
    let tool = ClientTool { name: name.into_owned(), namespace: namespace.map(String::from), custom };
    Ok((id.into_owned(), tool))
}

/// Reads the label of an assistant's message. No model is shown it.
fn phase(message: &mut Object<'_>) -> Result<Option<String>, Flaw> {
    let phase = message.take_text(PHASE)?;
    match phase.as_deref() {
        None | Some("commentary" | "final_answer") => Ok(phase.map(String::from)),
        Some(_) => Err(Flaw::at(PHASE, "must be commentary or final_answer")),
    }
}

/// The messages so far, and what waits for the next item.
struct InputReader<'a> {
    kept: &'a KeptItems,
    tools: &'a ClientTools,
    style: InputStyle,
    /// Items that were referred to. Each may be referred to once, so that a small body cannot become a large context.
    referred: HashSet<&'a str>,
    input: Input,
    assistant: Option<Assistant>,
    /// Whether an assistant's text that follows belongs to the same answer: a call of Herma's own tools was in between.
    goes_on: bool,
    reasoning: String,
}

/// An assistant's message to which calls may still be added.
#[derive(Default)]
struct Assistant {
    index: usize,
    text: Option<String>,
    refusal: String,
    calls: Vec<ToolCall>,
    /// Those of them that are not calls of plain functions.
    client_calls: Vec<ClientCall>,
    ids: HashSet<String>,
    reasoning: String,
    phase: Option<String>,
}

impl<'a> InputReader<'a> {
    fn item(&mut self, index: usize, raw: &RawValue) -> Result<(), Flaw> {
        let mut item = Object::read(raw)?;
        let kind = item.take_text("type")?;
        let role = item.take_text("role")?;
        match (kind.as_deref(), role) {
            (None, Some(role)) if self.style == InputStyle::ItemsAndChat && is_chat(&role, &item) => {
                self.end_of_answer()?;
                self.push_message(index, read_message(raw)?);
                Ok(())
            }
            (None | Some("message"), Some(role)) => self.message(index, &role, item),
            (Some("message"), None) => Err(Flaw::at("role", "is required")),
            // A reference may come without its type.
            (None, None) if item.rest().any(|(name, _)| name == "id") => self.reference(index, item),
            (None, None) => Err(Flaw::at("type", "is required")),
            (Some("function_call"), _) => self.function_call(index, item),
            (Some("custom_tool_call"), _) => self.custom_call(index, item),
            (Some("function_call_output"), _) => self.call_output(index, item),
            (Some("custom_tool_call_output"), _) => self.custom_output(index, item),
            (Some("reasoning"), _) => self.reason(item),
            (Some("compaction"), _) => self.compaction(index, item),
            (Some("item_reference"), _) => self.reference(index, item),
            (Some("mcp_call"), _) => {
                self.goes_on = self.assistant.is_some();
                Ok(())
            }
            (Some("mcp_approval_request" | "mcp_list_tools" | ADDITIONAL_TOOLS), _) => Ok(()),
            (Some("mcp_approval_response"), _) => self.approval(item),
            (Some(kind), _) if HOSTED_ITEMS.contains(&kind) => Ok(()),
            (Some(_), _) => Err(Flaw::at(
                "type",
                "must be message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, \
                 reasoning, compaction, additional_tools, item_reference, mcp_approval_response or another mcp item",
            )),
        }
    }

    fn message(&mut self, index: usize, role: &str, mut item: Object<'_>) -> Result<(), Flaw> {
        let raw = item.take("content").ok_or_else(|| Flaw::at("content", "is required"))?;
        let parts = parts(raw).map_err(|flaw| flaw.within("content"))?;
        match role {
            "assistant" => {
                let phase = phase(&mut item)?;
                self.assistant(index, parts, phase).map_err(|flaw| flaw.within("content"))
            }
            "user" | "system" | "developer" => {
                self.end_of_answer()?;
                let json = format!(r#"{{"role":"{role}","content":{}}}"#, chat_content(&parts));
                self.push_chat_json(index, json)
            }
            _ => Err(Flaw::at("role", "must be user, assistant, system or developer")),
        }
    }

    fn assistant(&mut self, index: usize, parts: Vec<ChatPart<'_>>, phase: Option<String>) -> Result<(), Flaw> {
        let before = match std::mem::take(&mut self.goes_on) {
            true => self.assistant.take(),
            false => None,
        };
        self.flush()?;
        let reasoning = std::mem::take(&mut self.reasoning);
        let mut said = before.unwrap_or_else(|| Assistant { index, ..Assistant::default() });
        said.reasoning.push_str(&reasoning);
        said.phase = phase;
        if let Some(text) = said.text.as_mut().filter(|text| !text.is_empty()) {
            text.push_str("\n\n");
        }
        for (at, part) in parts.into_iter().enumerate() {
            match part {
                ChatPart::Text(text) => said.text.get_or_insert_default().push_str(&text),
                ChatPart::Refusal(refusal) => said.refusal.push_str(&refusal),
                ChatPart::Other(_) => {
                    return Err(
                        Flaw::at("type", "must be output_text or refusal in an assistant's message").element(at)
                    );
                }
            }
        }
        self.assistant = Some(said);
        Ok(())
    }

    fn function_call(&mut self, index: usize, mut item: Object<'_>) -> Result<(), Flaw> {
        let (id, tool) = read_call(&mut item, false)?;
        let arguments = item.take_text("arguments")?.ok_or_else(|| Flaw::at("arguments", "is required"))?;
        self.call(index, id, tool, arguments.into_owned())
    }

    fn custom_call(&mut self, index: usize, mut item: Object<'_>) -> Result<(), Flaw> {
        let (id, tool) = read_call(&mut item, true)?;
        let input = item.take_text("input")?.ok_or_else(|| Flaw::at("input", "is required"))?;
        self.call(index, id, tool, arguments_of(&input))
    }

    fn call(&mut self, index: usize, id: String, tool: ClientTool, arguments: String) -> Result<(), Flaw> {
        let said = self.assistant.get_or_insert_with(|| Assistant { index, ..Assistant::default() });
        said.reasoning.push_str(&std::mem::take(&mut self.reasoning));
        if !said.ids.insert(id.clone()) {
            return Err(Flaw::at("call_id", "is the id of an earlier call in the same answer"));
        }
        let name = self.tools.model_name(&tool).into_owned();
        if !tool.is_plain() {
            said.client_calls.push(ClientCall { id: CallId::from(id.as_str()), tool });
        }
        said.calls.push(ToolCall { id, name, arguments, ..ToolCall::default() });
        Ok(())
    }

    fn call_output(&mut self, index: usize, mut item: Object<'_>) -> Result<(), Flaw> {
        let call = item.take_name("call_id")?;
        let raw = item.take("output").ok_or_else(|| Flaw::at("output", "is required"))?;
        let parts = parts(raw).map_err(|flaw| flaw.within("output"))?;
        self.end_of_answer()?;
        let mut writer = Writer::with_capacity(raw.get().len() + 64);
        writer.open_object();
        writer.field("role", "tool");
        writer.raw_field("content", &chat_content(&parts));
        writer.field("tool_call_id", &call);
        writer.close_object();
        self.push_chat_json(index, writer.into_text())
    }

    fn custom_output(&mut self, index: usize, item: Object<'_>) -> Result<(), Flaw> {
        self.call_output(index, item)?;
        if let Some(said) = self.input.messages.last_mut() {
            let mut extra = Extra::of(said);
            extra.custom_output = true;
            said.extra = extra.to_json();
        }
        Ok(())
    }

    fn approval(&mut self, mut item: Object<'_>) -> Result<(), Flaw> {
        let id = item.take_name(APPROVAL_REQUEST)?;
        let approve = item.take("approve").ok_or_else(|| Flaw::at("approve", "is required"))?;
        let approve = flag(approve).map_err(|flaw| flaw.within("approve"))?;
        let Some(Item::McpApprovalRequest { call, .. }) = self.kept.get(&*id) else {
            return Err(Flaw::at(APPROVAL_REQUEST, "is not the id of an approval request that is kept here"));
        };
        if self.input.approvals.iter().any(|(answered, _)| answered == call) {
            return Err(Flaw::at(APPROVAL_REQUEST, "is answered by an earlier item"));
        }
        self.input.approvals.push((call.clone(), approve));
        Ok(())
    }

    /// Keeps the text of the reasoning for the message that follows.
    fn reason(&mut self, mut item: Object<'_>) -> Result<(), Flaw> {
        for list in ["summary", "content"] {
            let Some(raw) = item.take(list) else { continue };
            for (index, part) in elements(raw).map_err(|flaw| flaw.within(list))?.into_iter().enumerate() {
                let text = Object::read(part).and_then(|mut part| part.take_text("text"));
                let text = text.map_err(|flaw| flaw.element(index).within(list))?.unwrap_or_default();
                if !self.reasoning.is_empty() {
                    self.reasoning.push_str("\n\n");
                }
                self.reasoning.push_str(&text);
            }
        }
        Ok(())
    }

    /// A sealed summary becomes a user's message in place of what it summarises. Any other compaction item is ignored,
    /// because the transcript has what it stands for.
    fn compaction(&mut self, index: usize, mut item: Object<'_>) -> Result<(), Flaw> {
        let sealed = item.take("encrypted_content").and_then(|raw| text(raw).ok());
        if let Some(summary) = sealed.and_then(|sealed| open_summary(&sealed)) {
            self.end_of_answer()?;
            self.push_utterance(index, simple_user(&summary));
        }
        Ok(())
    }

    fn reference(&mut self, index: usize, mut item: Object<'_>) -> Result<(), Flaw> {
        let id = item.take_name("id")?;
        let kept: &'a KeptItems = self.kept;
        let Some((id, item)) = kept.get_key_value(&*id) else {
            return Err(Flaw::at("id", "is not the id of an item that is kept here: send the item itself"));
        };
        if !self.referred.insert(id) {
            return Err(Flaw::at("id", "is the id of an item that an earlier reference names"));
        }
        let raw = RawValue::from_string(item.to_json()).map_err(|_| Flaw::at("id", "names an item that is damaged"))?;
        // A stored item is never a reference, so the recursion ends here.
        self.item(index, &raw)
    }

    fn push_utterance(&mut self, index: usize, said: Utterance) {
        self.input.messages.push(said);
        self.input.indices.push(index);
    }

    fn push_message(&mut self, index: usize, message: RequestMessage) {
        match message {
            RequestMessage::System(payload) => self.input.system.push(payload),
            RequestMessage::Transcript(said) => self.push_utterance(index, said),
        }
    }

    fn push_chat_json(&mut self, index: usize, json: String) -> Result<(), Flaw> {
        self.push_message(index, chat_message(json)?);
        Ok(())
    }

    /// The answer is over. Reasoning that no message followed is dropped.
    fn end_of_answer(&mut self) -> Result<(), Flaw> {
        self.goes_on = false;
        self.reasoning.clear();
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Flaw> {
        let Some(mut said) = self.assistant.take() else { return Ok(()) };
        self.push_chat_json(said.index, said.chat_json())?;
        let client_calls = std::mem::take(&mut said.client_calls);
        if let Some(stored) = self.input.messages.last_mut().filter(|_| !client_calls.is_empty()) {
            let mut extra = Extra::of(stored);
            extra.client_calls = client_calls;
            stored.extra = extra.to_json();
        }
        Ok(())
    }
}

impl Assistant {
    fn chat_json(&self) -> String {
        let mut writer = Writer::with_capacity(self.text.as_ref().map_or(0, String::len) + 128);
        writer.open_object();
        writer.field("role", "assistant");
        writer.field("content", &self.text.as_ref().filter(|text| !(text.is_empty() && self.says_more())));
        if !self.refusal.is_empty() {
            writer.field("refusal", &self.refusal);
        }
        if !self.calls.is_empty() {
            writer.key("tool_calls");
            tool_calls::write(&self.calls, &mut writer);
        }
        if !self.reasoning.is_empty() {
            writer.field("reasoning_content", &self.reasoning);
        }
        if let Some(phase) = &self.phase {
            writer.field(PHASE, phase);
        }
        writer.close_object();
        writer.into_text()
    }

    fn says_more(&self) -> bool {
        !(self.refusal.is_empty() && self.calls.is_empty())
    }
}
