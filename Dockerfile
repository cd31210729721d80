# A Drover worker. Mount or copy your own agents file and name it as the last argument:
#   docker run -e REDIS_URL=redis://... -v ./agents.ts:/app/agents.ts IMAGE worker agents.ts

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# No scripts: the only one needed brings the Node that this image has already.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund
# In a checkout the example agents import the sources; here they import the package, as an application does.
RUN sed -i 's#"\.\./src/index\.ts"#"drover"#; s#"\.\./src/testing/index\.ts"#"drover/testing"#' examples/agents.ts

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/package.json /app/LICENSE ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/examples/agents.ts ./examples/agents.ts
USER node
# Exec form: node is process 1 and gets SIGTERM itself. It hands its steps back and exits 0.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["worker", "examples/agents.ts"]
# Healthy: the configuration is valid and the store answers.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s --retries=3 \
  CMD ["node", "/app/dist/cli/main.js", "list", "--limit", "1"]
