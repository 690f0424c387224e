//! A topic on a cluster that runs, for the benchmarks that include this file.

use std::error::Error;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tokio::runtime::{Builder, Runtime};

fn admin(servers: &str) -> Result<(AdminClient<DefaultClientContext>, Runtime), Box<dyn Error>> {
    let admin = ClientConfig::new()
        .set("bootstrap.servers", servers)
        .create()?;
    Ok((admin, Builder::new_current_thread().build()?))
}

pub(crate) fn create(servers: &str, name: &str, partitions: i32) -> Result<(), Box<dyn Error>> {
    let (admin, runtime) = admin(servers)?;
    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let created = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new()))?;
    for outcome in created {
        outcome.map_err(|(refused, error)| format!("topic {refused} is not created: {error}"))?;
    }
    Ok(())
}

pub(crate) fn delete(servers: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let (admin, runtime) = admin(servers)?;
    let deleted = runtime.block_on(admin.delete_topics(&[name], &AdminOptions::new()))?;
    for outcome in deleted {
        outcome.map_err(|(refused, error)| format!("topic {refused} is not deleted: {error}"))?;
    }
    Ok(())
}
