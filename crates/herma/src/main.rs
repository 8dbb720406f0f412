//! temporary
use herma_gateway::{Gateway, Settings, access::Access};
use herma_store::Store;
use std::sync::Arc;
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let a: Vec<String> = std::env::args().collect();
    let get = |n: &str| a.iter().position(|x| x == n).map(|i| a[i + 1].clone());
    let store: Arc<dyn Store> = Arc::new(herma_store_sqlite::SqliteStore::open(
        &std::path::Path::new(&get("--data").unwrap()).join("herma.db"),
    )?);
    let up: Arc<dyn herma_upstream::ModelServer> = match get("--upstream") {
        Some(u) => Arc::new(herma_upstream::HttpModelServer::new(herma_upstream::HttpSettings {
            base_url: u,
            api_key: None,
            timeout: std::time::Duration::from_secs(120),
            retries: 2,
        })?),
        None => Arc::new(herma_upstream::OfflineModel),
    };
    let g = Gateway::start(
        Arc::clone(&store),
        up,
        Settings {
            default_model: get("--model").unwrap_or("offline".into()),
            context_window: None,
            models: Default::default(),
            max_live_turns: 4096,
            queue_limit: 64,
            queue_timeout: std::time::Duration::from_secs(120),
            cache_bytes: 64 << 20,
        },
    );
    let acc = Access::new(store, std::env::var("HERMA_API_KEY").ok().as_deref()).await?;
    let l = tokio::net::TcpListener::bind(get("--listen").unwrap_or("127.0.0.1:8642".into())).await?;
    eprintln!("herma listening on http://{}", l.local_addr()?);
    let g2 = Arc::clone(&g);
    herma_http::serve(
        l,
        g2,
        herma_http::HttpSettings {
            cors_origins: vec![],
            max_body_bytes: 10_000_000,
            authentication: herma_http::Authentication::Keys(acc),
        },
        async {
            let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap().recv().await;
        },
    )
    .await?;
    g.drain(std::time::Duration::from_secs(5)).await;
    Ok(())
}
