import { availableParallelism } from 'node:os'

/** The name of the configuration file in the data folder. */
export const CONFIG_FILE = 'embedded-clickhouse.xml'
/** The user of the HTTP interface. The engine's own session is `default`, always without a password. */
export const USER = 'tallyhouse'

/**
 * The engine's configuration as XML. It sets what must differ from the defaults of ClickHouse as a library, or from
 * those of a large server. The `system.*_log` tables exist only if a configuration names them, so none of them fills
 * the disk. `query_log` has the CPU time of reads (store/read-log.ts): it is in memory, and has only the queries that ask
 * to be logged. Their texts cannot be left out, because `system.processes` would lack them, too.
 *
 * The engine's own session logs in as `default` without a password, from 127.0.0.1, whatever is set: neither a password
 * nor a network can keep HTTP clients from being `default`. So the HTTP rules admit only requests with the exact
 * authorization header of USER, and `default` has no more rights than the query of the child process needs. The
 * header's value must not be empty: an empty one in a rule would match a request without the header.
 *
 * @param options `readsFiles`: whether queries may use the table function `file()`
 */
export function buildConfiguration({ readsFiles }: { readsFiles: boolean }): string {
  // As a library, ClickHouse merges with 2 threads. Half of the slots (2 per thread) stay reserved for small merges.
  const threads = Math.min(8, Math.max(2, availableParallelism()))
  return `<clickhouse>
  <!-- longer than a client keeps an idle socket, in seconds -->
  <keep_alive_timeout>75</keep_alive_timeout>
  <!-- the machine is shared with the service, and often with more -->
  <max_server_memory_usage_to_ram_ratio>0.6</max_server_memory_usage_to_ram_ratio>
  <mark_cache_size>268435456</mark_cache_size>
  <index_mark_cache_size>67108864</index_mark_cache_size>
  <!-- for the statements of edits, which ask for it: 64 of them read 8 MB -->
  <uncompressed_cache_size>67108864</uncompressed_cache_size>
  <primary_index_cache_size>268435456</primary_index_cache_size>
  <background_pool_size>${threads}</background_pool_size>
  <background_merges_mutations_concurrency_ratio>2</background_merges_mutations_concurrency_ratio>
  <!--
    A merge holds a core for some 50 ms, which delays single events on 2 cores; so merges run at a lower
    priority. The gain is uncertain: of nine comparisons of the slowest 1 %, five were for it, two against,
    two undecided. Batches are as fast. It needs CAP_SYS_NICE, which root has; otherwise it has no effect.
    Not for INSERTs as well: after 20 s of full load the last event was then visible 5 to 9 s after the end
    instead of 1.
  -->
  <os_threads_nice_value_merge_mutate>5</os_threads_nice_value_merge_mutate>
  <background_schedule_pool_size>${threads}</background_schedule_pool_size>
  <merge_tree>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>${threads}</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>${threads}</number_of_free_entries_in_pool_to_execute_mutation>
  </merge_tree>
  <query_log>
    <engine>ENGINE = Memory SETTINGS compress = 1, max_rows_to_keep = 5000, max_bytes_to_keep = 33554432</engine>
    <flush_interval_milliseconds>7500</flush_interval_milliseconds>
    <reserved_size_rows>1024</reserved_size_rows>
  </query_log>
  <http_handlers>
    <rule>
      <url>/ping</url>
      <handler><type>ping</type></handler>
    </rule>
    <rule>
      <headers><authorization from_env="EMBEDDED_CLICKHOUSE_AUTHORIZATION"/></headers>
      <handler><type>dynamic_query_handler</type></handler>
    </rule>
    <rule>
      <handler>
        <type>static</type>
        <status>403</status>
        <response_content>The user or the password is wrong.\n</response_content>
      </handler>
    </rule>
  </http_handlers>
  <!-- this file; without it the users below are not read -->
  <users_config>${CONFIG_FILE}</users_config>
  <users>
    <default>
      <password/>
      <grants>
        <query>GRANT CREATE DATABASE, CREATE TEMPORARY TABLE, SYSTEM LISTEN ON *.*</query>
        <query>GRANT TABLE ENGINE ON Atomic</query>
        <query>GRANT SELECT ON system.numbers</query>
      </grants>
    </default>
    <${USER}>
      <password from_env="EMBEDDED_CLICKHOUSE_PASSWORD"/>
      <grants>
        <query>GRANT ALL ON *.*</query>
        <!-- no table functions that read other servers, nor, usually, files -->
        <query>REVOKE SOURCES ON *.*</query>${readsFiles ? '\n        <query>GRANT READ ON FILE</query>' : ''}
      </grants>
    </${USER}>
  </users>
  <profiles>
    <default>
      <!--
        Compiling an expression takes 10 to 40 ms, by default at its third use, and makes questions over
        5 million events at most 9 % faster. So only what is asked often is compiled.
      -->
      <min_count_to_compile_expression>30</min_count_to_compile_expression>
      <min_count_to_compile_aggregate_expression>30</min_count_to_compile_aggregate_expression>
      <min_count_to_compile_sort_description>30</min_count_to_compile_sort_description>
      <log_queries_probability>0</log_queries_probability>
      <log_queries_min_type>QUERY_FINISH</log_queries_min_type>
    </default>
  </profiles>
  <quotas><default/></quotas>
</clickhouse>
`
}
