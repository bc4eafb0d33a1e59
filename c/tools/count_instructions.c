/* A plugin of qemu that counts the instructions a program executes:
 *
 *     cc -shared -fPIC tools/count_instructions.c -o build/count.so
 *     qemu-aarch64 -plugin build/count.so -d plugin -D count.txt build-aarch64/example ...
 *
 * Of qemu's plugin interface (version 1) only what is needed is declared here, for Debian does not package its header. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int add, void *to, uint64_t value);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void *), void *user);
void qemu_plugin_outs(const char *words);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
static uint64_t executed;

static void count_block(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &executed, qemu_plugin_tb_n_insns(block));
}

static void tell(plugin_id id, void *user) {
    char words[64];
    (void)id, (void)user;
    snprintf(words, sizeof(words), "instructions: %llu\n", (unsigned long long)executed);
    qemu_plugin_outs(words);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *about, int count, char **words) {
    (void)about, (void)count, (void)words;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
    qemu_plugin_register_atexit_cb(id, tell, NULL);
    return 0;
}
