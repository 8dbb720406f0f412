//! The tools of a request: the client's functions and custom tools, MCP servers that Herma runs, and hosted tools.
//!
//! A model server has functions only. [`definition`] says how the others are offered to it. A hosted tool is one that
//! runs at OpenAI, such as a web search. The operator decides what happens to it.

mod choice;
mod definition;

use std::borrow::Cow;

use serde_json::value::RawValue;

use self::definition::{Definition, Server};
use super::known::{HostedTools, Known};
use crate::bad_request::Flaw;
use crate::client_tools::ClientTools;
use crate::json::{Object, Writer, compact, elements};

pub(super) use choice::tool_choice;

/// A field in two forms: for the model server, and for the echo.
pub(super) struct ChatAndEcho {
    pub(super) chat: String,
    pub(super) echo: String,
}

/// The tools of a request.
#[derive(Default)]
pub(super) struct Tools<'a> {
    /// The client's functions and custom tools, each once.
    definitions: Vec<Definition<'a>>,
    /// Hosted tools that are passed on as they are.
    passed_on: Vec<Cow<'a, str>>,
    /// The types of the hosted tools that were left out.
    left_out: Vec<String>,
    /// What the model calls the client's tools.
    pub(super) names: ClientTools,
    /// The labels of the MCP servers about whose calls the client can be asked.
    pub(super) servers: Vec<String>,
    /// All tools that were not left out, for the echo. `None` if the request has no list, or an empty one.
    pub(super) echo: Option<String>,
}

impl<'a> Tools<'a> {
    /// Reads the lists of tools of a request. Of two tools with the same name in the same namespace, the last one
    /// counts.
    pub(super) fn read(lists: &[ToolList<'a>], known: &Known) -> Result<Self, Flaw> {
        let mut tools = Self::default();
        let mut echo = Writer::with_capacity(lists.iter().map(|list| list.tools.get().len()).sum());
        let mut is_empty = true;
        echo.open_array();
        for list in lists {
            for (index, tool) in elements(list.tools).map_err(|flaw| list.at(flaw))?.into_iter().enumerate() {
                is_empty = false;
                tools.add(tool, known, &mut echo).map_err(|flaw| list.at(flaw.element(index)))?;
            }
        }
        echo.close_array();
        tools.echo = (!is_empty).then(|| echo.into_text());
        tools.names = ClientTools::of(tools.definitions.iter().map(Definition::tool));
        Ok(tools)
    }

    /// The tools for the model server. `None` if there are none: then it does not get the field.
    pub(super) fn chat(&self) -> Option<String> {
        if !self.has_any() {
            return None;
        }
        let mut writer = Writer::with_capacity(1024);
        writer.open_array();
        for definition in &self.definitions {
            definition.write_chat(&self.names.model_name(&definition.tool()), &mut writer);
        }
        for tool in &self.passed_on {
            writer.raw(tool);
        }
        writer.close_array();
        Some(writer.into_text())
    }

    fn has_any(&self) -> bool {
        !(self.definitions.is_empty() && self.passed_on.is_empty())
    }

    fn add(&mut self, raw: &'a RawValue, known: &Known, echo: &mut Writer) -> Result<(), Flaw> {
        let mut tool = Object::read(raw)?;
        match &*tool.take_name("type")? {
            "function" => self.define(Definition::function(tool)?, echo),
            "custom" => self.define(Definition::custom(tool)?, echo),
            "namespace" => self.add_namespace(tool, known, echo)?,
            "mcp" => {
                let server = Server::read(tool)?;
                if !known.runs(&server.label) {
                    return self.add_hosted("mcp", raw, known, echo);
                }
                server.write_echo(echo);
                self.servers.push(server.label.into_owned());
            }
            kind => self.add_hosted(kind, raw, known, echo)?,
        }
        Ok(())
    }

    fn add_namespace(&mut self, mut namespace: Object<'a>, known: &Known, echo: &mut Writer) -> Result<(), Flaw> {
        let name = namespace.take_name("name")?;
        let mut description = namespace.take_text("description")?;
        let listed = namespace.take("tools").ok_or_else(|| Flaw::at("tools", "is required"))?;
        echo.open_object();
        echo.field("type", "namespace");
        echo.field("name", &name);
        echo.field("description", &description);
        echo.key("tools");
        echo.open_array();
        let mut add = |raw: &'a RawValue| {
            let mut tool = Object::read(raw)?;
            let definition = match &*tool.take_name("type")? {
                "function" => Definition::function(tool)?,
                "custom" => Definition::custom(tool)?,
                kind => return self.add_hosted(kind, raw, known, echo),
            };
            self.define(definition.within(name.clone(), description.take()), echo);
            Ok(())
        };
        for (index, raw) in elements(listed).map_err(|flaw| flaw.within("tools"))?.into_iter().enumerate() {
            add(raw).map_err(|flaw: Flaw| flaw.element(index).within("tools"))?;
        }
        echo.close_array();
        echo.close_object();
        Ok(())
    }

    fn define(&mut self, definition: Definition<'a>, echo: &mut Writer) {
        definition.write_echo(echo);
        let tool = definition.tool();
        match self.definitions.iter_mut().find(|other| other.tool() == tool) {
            Some(other) => *other = definition,
            None => self.definitions.push(definition),
        }
    }

    fn add_hosted(&mut self, kind: &str, raw: &'a RawValue, known: &Known, echo: &mut Writer) -> Result<(), Flaw> {
        match known.hosted {
            HostedTools::LeaveOut => self.left_out.push(kind.to_owned()),
            HostedTools::Refuse => {
                return Err(Flaw::at(
                    "type",
                    "must be function, custom, namespace, or mcp with a server of this gateway: the operator refuses \
                     tools that the model server does not have",
                ));
            }
            HostedTools::PassOn => {
                let tool = compact(raw)?;
                echo.raw(&tool);
                self.passed_on.push(tool);
            }
        }
        Ok(())
    }
}

/// A list of tools, and where it stands in the request.
#[derive(Clone, Copy)]
pub(super) struct ToolList<'a> {
    tools: &'a RawValue,
    /// The index of the input item that has it. `None` for the request's own list.
    item: Option<usize>,
}

impl<'a> ToolList<'a> {
    /// The request's own list.
    pub(super) const fn own(tools: &'a RawValue) -> Self {
        Self { tools, item: None }
    }

    /// The lists in items of the input.
    pub(super) fn in_input(input: Option<&'a RawValue>) -> Result<Vec<Self>, Flaw> {
        // A wrong item is reported later, when the input is read.
        let items = input.filter(|raw| raw.get().starts_with('[') && raw.get().contains(ADDITIONAL_TOOLS));
        let items = items.map(elements).transpose().map_err(|flaw| flaw.within("input"))?.unwrap_or_default();
        let list = |(index, raw): (usize, &'a RawValue)| {
            let mut item = Object::read(raw).ok()?;
            item.take_text("type").ok().flatten().filter(|kind| kind == ADDITIONAL_TOOLS)?;
            Some(Self { tools: item.take("tools")?, item: Some(index) })
        };
        Ok(items.into_iter().enumerate().filter_map(list).collect())
    }

    fn at(&self, flaw: Flaw) -> Flaw {
        let flaw = flaw.within("tools");
        match self.item {
            Some(index) => flaw.element(index).within("input"),
            None => flaw,
        }
    }
}

/// The type of an input item that has a list of tools.
pub(super) const ADDITIONAL_TOOLS: &str = "additional_tools";
