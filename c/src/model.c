#include "model.h"

#include <math.h>
#include <string.h>

#include "checks.h"
#include "kernels.h"

/* Magic, version, bytes in all, CRC-32 of what follows it, number of sections; then place and bytes of each section. */
enum { VERSION = 4, CHECKED_FROM = 20, HEADER = 24, MOST_FUNCTIONS = 64, MOST_NODES = 4096 };
static const char MAGIC[8] = "FLMIMAGE";

typedef struct {
    const uint8_t *content;
    uint32_t bytes, sections, next;
    int wrong;
} reader;

static uint32_t number_at(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof(value));
    return value;
}

flame_status check_model(const void *content, size_t bytes) {
    const uint8_t *image = content;
    if (!content || bytes < HEADER || memcmp(image, MAGIC, sizeof(MAGIC))) return FLAME_NO_MODEL;
    if (number_at(image + 8) != VERSION) return FLAME_OTHER_VERSION;
    if (number_at(image + 12) != bytes) return FLAME_DAMAGED_MODEL;
    if (crc32_of(image + CHECKED_FROM, bytes - CHECKED_FROM) != number_at(image + 16)) return FLAME_DAMAGED_MODEL;
    return FLAME_OK;
}

/* The next section, which must have so many values of so many bytes. */
static const void *next_section(reader *from, int64_t count, size_t each) {
    if (from->wrong || from->next >= from->sections) {
        from->wrong = 1;
        return NULL;
    }
    const uint8_t *entry = from->content + HEADER + 8 * (size_t)from->next++;
    uint32_t at = number_at(entry), bytes = number_at(entry + 4);
    from->wrong = count < 0 || at % 8 || at > from->bytes || bytes > from->bytes - at || bytes != (uint64_t)count * each;
    return from->wrong ? NULL : from->content + at;
}

static const float *floats(reader *from, int64_t count) {
    const float *found = next_section(from, count, sizeof(float));
    for (int64_t i = 0; found && i < count; i++) from->wrong |= !isfinite(found[i]);
    return found;
}

static const double *doubles(reader *from, int64_t count) {
    const double *found = next_section(from, count, sizeof(double));
    for (int64_t i = 0; found && i < count; i++) from->wrong |= !isfinite(found[i]);
    return found;
}

static layer read_layer(reader *from, int64_t outputs, int64_t taps) {
    layer found = {floats(from, outputs * taps), NULL};
    found.bias = floats(from, outputs);
    return found;
}

int packed_rows(int rows) {
    while (rows > 0 && 4 * ((5 - rows % 5) % 5) > rows) rows++;
    return rows;
}

static int between(int32_t value, int32_t least, int32_t most) { return value >= least && value <= most; }
static int in_blocks(int32_t channels) { return channels > 0 && packed_rows(channels) == channels; }

static int sizes_fit(const model *of) {
    int fits = between(of->tile, TILE_STEP, MOST_TILE) && of->tile % TILE_STEP == 0 && of->overlap >= 0 &&
               of->overlap % 2 == 0 && of->overlap <= of->tile / 2 && between(of->bands, 2, MOST_BANDS) &&
               between(of->functions, 0, MOST_FUNCTIONS) && packed_rows(of->functions) <= MOST_RESPONSES &&
               between(of->windows, 1, MOST_RESPONSES) && packed_rows(of->windows) <= MOST_RESPONSES &&
               in_blocks(of->windows) && between(of->hidden, 1, MOST_HIDDEN) && in_blocks(of->hidden) &&
               between(of->last, 1, MOST_HIDDEN) && in_blocks(of->last) && between(of->gaussians, 2, MOST_GAUSSIANS - 1) &&
               of->fields == 6 + 2 * of->gaussians && between(of->anchors, 2, MOST_ANCHORS) &&
               between(of->sample_pixels, 64, 1 << 20) && between(of->bins, 1, MOST_BINS) &&
               between(of->levels, 2, MOST_LEVELS) && between(of->passes, 1, 16) && between(of->nodes, 8, MOST_NODES) &&
               of->functions + of->fields + of->windows <= MOST_TAPS;
    for (int level = 0; fits && level <= DEPTH; level++)
        fits = between(of->width[level], 1, MOST_WIDTH) && in_blocks(of->width[level]) && 9 * of->width[level] <= MOST_TAPS;
    return fits && 9 * (of->width[0] + 2) + of->fields <= MOST_TAPS && 9 * of->hidden <= MOST_TAPS;
}

static int numbers_fit(const model *of) {
    return of->reference_ppm_m > 0 && of->tau_ppm_m > 0 && of->threshold >= 0 && of->threshold < 1 &&
           of->core_sigmas >= 0 && of->core_sigmas <= MOST_CORE_SIGMAS && of->saturation > 0 &&
           of->tiny > 0 && of->most_sigma_ppm_m > 0 && of->smoothing_px > 0.2 && of->smoothing_px < 64 &&
           of->plume_significance > 0 && of->least_spread > 0 && of->most_lead > 0 && of->max_log_noise > 0 && of->min_albedo > 0 && of->max_albedo > 1;
}

static void read_gaussians(reader *from, model *to) {
    int64_t taps = 0;
    to->reach = next_section(from, to->gaussians + 1, sizeof(int32_t));
    for (int i = 0; !from->wrong && i <= to->gaussians; i++) {
        from->wrong |= !between(to->reach[i], 0, MOST_BLUR);
        taps += 2 * (int64_t)to->reach[i] + 1;
    }
    to->taps = floats(from, taps);
    to->all_taps = (int32_t)taps;
}

static void read_arrays(reader *from, model *to) {
    to->absorption = doubles(from, to->bands);
    to->function = doubles(from, (int64_t)to->functions * to->bands);
    to->share = doubles(from, (int64_t)to->windows * to->bands);
    to->enhancement = doubles(from, to->nodes);
    to->log_transmittance = doubles(from, (int64_t)to->bands * to->nodes);
    read_gaussians(from, to);
    to->lift = read_layer(from, to->width[0], to->functions + to->fields + to->windows);
    for (int level = 0; level < DEPTH; level++)
        for (int i = 0; i < 2; i++)
            to->down[level][i] = read_layer(from, to->width[level + 1], 9 * to->width[level + i]);
    for (int i = 0; i < DEPTH; i++) {
        int level = DEPTH - i, inputs = to->width[level] * (i ? 2 : 1);
        to->up[i].weight = floats(from, (int64_t)16 * inputs * to->width[level - 1]);
        to->up[i].bias = floats(from, to->width[level - 1]);
    }
    to->beside = floats(from, (int64_t)to->width[0] * to->width[0]);
    to->heads = read_layer(from, 2 * to->windows, to->width[0]);
    to->segment[0] = read_layer(from, to->hidden, 9 * (to->width[0] + 2) + to->fields);
    to->segment[1] = read_layer(from, to->last, 9 * to->hidden);
    to->project = read_layer(from, 3 + to->gaussians, to->last);
}

flame_status read_model(const void *content, size_t bytes, model *to) {
    if ((uintptr_t)content % 8) return FLAME_MISPLACED_MODEL;
    flame_status status = check_model(content, bytes);
    if (status != FLAME_OK) return status;
    reader from = {content, (uint32_t)bytes, number_at((const uint8_t *)content + CHECKED_FROM), 0, 0};
    if (from.sections > (from.bytes - HEADER) / 8) return FLAME_IMPOSSIBLE_MODEL;
    memset(to, 0, sizeof(*to));
    const size_t sizes = offsetof(model, reference_ppm_m) / sizeof(int32_t);
    const size_t used = offsetof(model, opening) / sizeof(int32_t) + 1;
    const int32_t *integers = next_section(&from, (int64_t)used, sizeof(int32_t));
    const double *reals = doubles(&from, (int64_t)((offsetof(model, absorption) - offsetof(model, reference_ppm_m)) / 8));
    if (from.wrong || used > sizes) return FLAME_IMPOSSIBLE_MODEL;
    memcpy((char *)to + offsetof(model, tile), integers, used * sizeof(int32_t));
    memcpy((char *)to + offsetof(model, reference_ppm_m), reals, offsetof(model, absorption) - offsetof(model, reference_ppm_m));
    if (!sizes_fit(to) || !numbers_fit(to)) return FLAME_IMPOSSIBLE_MODEL;
    read_arrays(&from, to);
    return from.wrong || from.next != from.sections ? FLAME_IMPOSSIBLE_MODEL : FLAME_OK;
}
