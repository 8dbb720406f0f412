//! All sections together: reading them, questions about several of them, and writing them as TOML.

use std::path::{Path, PathBuf};

use crate::page::Page;
use crate::reading::section::Section;
use crate::sections::admission::AdmissionConfig;
use crate::sections::budgets::BudgetsConfig;
use crate::sections::compaction::CompactionConfig;
use crate::sections::jobs::JobsConfig;
use crate::sections::memory::MemoryConfig;
use crate::sections::models::ModelsConfig;
use crate::sections::responses::ResponsesConfig;
use crate::sections::retention::RetentionConfig;
use crate::sections::server::ServerConfig;
use crate::sections::store::StoreConfig;
use crate::sections::telemetry::TelemetryConfig;
use crate::sections::titles::TitlesConfig;
use crate::sections::tools::ToolsConfig;
use crate::sections::upstream::UpstreamConfig;
use crate::values::secret::Secret;

/// The effective configuration. `Debug` shows no secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The directory of the database and the first key.
    pub data_dir: PathBuf,
    /// `HERMA_API_KEY`, a key of tenant `default`. The file cannot set it.
    pub api_key: Option<Secret>,
    /// `[server]`.
    pub server: ServerConfig,
    /// `[store]`.
    pub store: StoreConfig,
    /// `[upstream]`.
    pub upstream: UpstreamConfig,
    /// `[models.NAME]`.
    pub models: ModelsConfig,
    /// `[compaction]`.
    pub compaction: CompactionConfig,
    /// `[responses]`.
    pub responses: ResponsesConfig,
    /// `[titles]`.
    pub titles: TitlesConfig,
    /// `[admission]`.
    pub admission: AdmissionConfig,
    /// `[memory]`.
    pub memory: MemoryConfig,
    /// `[tools]`.
    pub tools: ToolsConfig,
    /// `[budgets]`.
    pub budgets: BudgetsConfig,
    /// `[jobs]`.
    pub jobs: JobsConfig,
    /// `[retention]`.
    pub retention: RetentionConfig,
    /// `[telemetry]`.
    pub telemetry: TelemetryConfig,
}

impl Config {
    /// The configuration if nothing is set.
    pub fn defaults(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            api_key: None,
            server: ServerConfig::default(),
            store: StoreConfig::in_directory(data_dir),
            upstream: UpstreamConfig::default(),
            models: ModelsConfig::default(),
            compaction: CompactionConfig::default(),
            responses: ResponsesConfig::default(),
            titles: TitlesConfig::default(),
            admission: AdmissionConfig::default(),
            memory: MemoryConfig::default(),
            tools: ToolsConfig::default(),
            budgets: BudgetsConfig::default(),
            jobs: JobsConfig::default(),
            retention: RetentionConfig::default(),
            telemetry: TelemetryConfig::default(),
        }
    }

    /// Reads all sections. What cannot be used is noted in the document, and has its default here.
    pub(crate) fn read(document: &mut Section, data_dir: PathBuf, api_key: Option<Secret>) -> Self {
        Self {
            api_key,
            server: document.within("server", ServerConfig::read),
            store: document.within("store", |section| StoreConfig::read(section, &data_dir)),
            upstream: document.within("upstream", UpstreamConfig::read),
            models: document.within("models", ModelsConfig::read),
            compaction: document.within("compaction", CompactionConfig::read),
            responses: document.within("responses", ResponsesConfig::read),
            titles: document.within("titles", TitlesConfig::read),
            admission: document.within("admission", AdmissionConfig::read),
            memory: document.within("memory", MemoryConfig::read),
            tools: document.within("tools", ToolsConfig::read),
            budgets: document.within("budgets", BudgetsConfig::read),
            jobs: document.within("jobs", JobsConfig::read),
            retention: document.within("retention", RetentionConfig::read),
            telemetry: document.within("telemetry", TelemetryConfig::read),
            data_dir,
        }
    }

    /// What differs from the defaults, as commented TOML that can be loaded again. Secrets are left out, and settings
    /// of features that are not there yet.
    pub fn to_toml(&self) -> String {
        self.page().differing_from(&Self::defaults(&self.data_dir).page())
    }

    /// Every setting, as commented TOML that can be loaded again. Those that have their default are comments.
    pub fn to_whole_toml(&self) -> String {
        self.page().whole(&Self::defaults(&self.data_dir).page())
    }

    fn page(&self) -> Page {
        let mut page = Page::default();
        if self.api_key.is_some() {
            page.comment("HERMA_API_KEY is set");
        }
        self.server.write(&mut page);
        self.store.write(&mut page, &self.data_dir);
        self.upstream.write(&mut page);
        self.models.write(&mut page);
        self.compaction.write(&mut page);
        self.responses.write(&mut page);
        self.titles.write(&mut page);
        self.admission.write(&mut page);
        self.memory.write(&mut page);
        self.tools.write(&mut page);
        self.budgets.write(&mut page);
        self.jobs.write(&mut page);
        self.retention.write(&mut page);
        self.telemetry.write(&mut page);
        page
    }
}
