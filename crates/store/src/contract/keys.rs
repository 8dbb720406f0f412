//! Tenants and API keys.

use herma_model::{ApiKeyId, KeyLimits, KeyScope, Timestamp};
use uuid::Uuid;

use super::World;
use crate::{KeyHash, NewApiKey, Store};

fn key<S: Store>(world: &World<S>, byte: u8, patterns: Option<&str>) -> NewApiKey {
    NewApiKey {
        id: ApiKeyId::from_uuid(Uuid::now_v7()),
        tenant: world.scope.tenant,
        hash: KeyHash([byte; 32]),
        hint: format!("hk-{byte}"),
        session_keys: KeyScope::parse(patterns),
        limits: KeyLimits::default(),
        now: world.now(),
    }
}

pub async fn a_key_stands_for_its_tenant_until_it_is_revoked<S: Store>(world: &World<S>) {
    let key = key(world, 1, Some("team/*,me"));
    assert_eq!(world.one.principal_of(key.hash).await.unwrap(), None);
    world.one.create_key(key.clone()).await.unwrap();
    let principal = world.two.principal_of(key.hash).await.unwrap().unwrap();
    assert_eq!((principal.tenant, principal.key), (world.scope.tenant, Some(key.id)));
    assert_eq!((&*principal.tenant_name, &principal.session_keys), ("tenant", &key.session_keys));
    assert_eq!(world.two.principal_of(KeyHash([2; 32])).await.unwrap(), None);
    assert!(world.two.revoke_key(key.id, world.now()).await.unwrap());
    assert_eq!(world.one.principal_of(key.hash).await.unwrap(), None);
    assert!(!world.one.revoke_key(key.id, world.now()).await.unwrap(), "it is revoked once");
    assert!(!world.one.revoke_key(ApiKeyId::from_uuid(Uuid::now_v7()), world.now()).await.unwrap());
}

pub async fn a_key_keeps_its_limits<S: Store>(world: &World<S>) {
    let limits = KeyLimits {
        read_only: true,
        expires_at: Some(Timestamp(world.now().0 + 1_000)),
        rate: Some("60/min".parse().unwrap()),
        max_turns: Some(4),
    };
    let limited = NewApiKey { limits, ..key(world, 1, None) };
    let free = key(world, 2, None);
    world.one.create_key(limited.clone()).await.unwrap();
    world.one.create_key(free.clone()).await.unwrap();
    assert_eq!(world.two.principal_of(limited.hash).await.unwrap().unwrap().limits, limits);
    assert_eq!(world.two.principal_of(free.hash).await.unwrap().unwrap().limits, KeyLimits::default());
    let listed: Vec<_> = world.two.keys().await.unwrap().into_iter().map(|row| row.limits).collect();
    assert_eq!(listed, [limits, KeyLimits::default()]);
}

pub async fn keys_are_listed_oldest_first<S: Store>(world: &World<S>) {
    let (first, second) =
        (key(world, 1, None), NewApiKey { tenant: world.stranger.tenant, ..key(world, 2, Some("a")) });
    world.one.create_key(second.clone()).await.unwrap();
    world.one.create_key(first.clone()).await.unwrap();
    let revoked_at = world.now();
    world.one.revoke_key(second.id, revoked_at).await.unwrap();
    let rows = world.two.keys().await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [first.id, second.id]);
    assert_eq!((&*rows[0].tenant_name, rows[0].hint.as_str(), rows[0].revoked_at), ("tenant", "hk-1", None));
    assert_eq!((&*rows[1].tenant_name, rows[1].revoked_at), ("stranger", Some(revoked_at)));
    assert_eq!((&rows[0].session_keys, &rows[1].session_keys), (&first.session_keys, &second.session_keys));
    assert_eq!(rows[0].created_at, first.now);
}

pub async fn a_tenant_is_made_once<S: Store>(world: &World<S>) {
    let mut makers = tokio::task::JoinSet::new();
    for maker in 0..8 {
        let world = world.clone();
        makers.spawn(async move {
            let store = if maker % 2 == 0 { &world.one } else { &world.two };
            store.ensure_tenant("third", world.now()).await.unwrap()
        });
    }
    let made = makers.join_all().await;
    assert!(made.iter().all(|tenant| *tenant == made[0]));
    assert!(made[0] != world.scope.tenant && made[0] != world.stranger.tenant);
}
