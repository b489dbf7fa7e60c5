# The first two stages run on the machine that builds, whatever the image is for: nothing that they make depends on the
# processor, and npm crashes in an emulated one.
FROM --platform=$BUILDPLATFORM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY LICENSE tsconfig.json tsconfig.build.json ./
COPY packages ./packages
COPY scripts ./scripts
COPY src ./src
RUN npm run build

# Without the optional packages, which are the embedded ClickHouse and the embedded journal's binaries: 0.6 GB less.
FROM --platform=$BUILDPLATFORM node:24-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts

# Needs CLICKHOUSE_URL and REDIS_URL.
FROM node:24-bookworm-slim
# ghcr.io links the image to the repository in its label.
LABEL org.opencontainers.image.source=https://github.com/tallyhouse/tallyhouse org.opencontainers.image.licenses=MIT
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000
WORKDIR /app
COPY package.json LICENSE THIRD-PARTY.md ./
COPY schema ./schema
COPY --from=packages /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
RUN ln -s /app/dist/cli.js /usr/local/bin/tallyhouse
USER node
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["tallyhouse", "serve"]
