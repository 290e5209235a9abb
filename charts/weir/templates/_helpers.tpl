{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{/* 48 characters leave room for -nats-headless and the number of a pod in 63. */}}
{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains (include "weir.name" .) .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "weir.name" .) | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
{{ include "weir.commonLabels" . }}
{{- end -}}

{{- define "weir.commonLabels" -}}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "weir.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "weir.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "weir.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .version }}
{{- end -}}
{{- end -}}

{{/* store of config as an object, with the address that the chart knows. */}}
{{- define "weir.store" -}}
{{- $store := .Values.config.store | default dict -}}
{{- if kindIs "string" $store -}}{{- $store = dict "at" $store -}}{{- end -}}
{{- $store = deepCopy $store -}}
{{- if .Values.nats.enabled -}}
  {{- if $store.at -}}{{- fail "nats.enabled and config.store name two stores: remove one of them" -}}{{- end -}}
  {{- $hosts := list -}}
  {{- range $i := until (int .Values.nats.replicaCount) -}}
    {{- $hosts = append $hosts (printf "%s@%s-nats-%d.%s-nats:4222" "nats://weir:${NATS_PASSWORD}" (include "weir.fullname" $) $i (include "weir.fullname" $)) -}}
  {{- end -}}
  {{- $_ := set $store "at" (join "," $hosts) -}}
{{- else if and .Values.persistence.enabled (not $store.at) -}}
  {{- $_ := set $store "at" "file:/state/store" -}}
{{- end -}}
{{- toYaml $store -}}
{{- end -}}

{{/* "true" where several gateways can share the store. */}}
{{- define "weir.shared" -}}
{{- $at := (include "weir.store" . | fromYaml).at | default "" -}}
{{- if or (hasPrefix "nats://" $at) (hasPrefix "tls://" $at) -}}true{{- end -}}
{{- end -}}

{{- define "weir.drain" -}}
{{- if include "weir.shared" . -}}{{- int .Values.drainSeconds -}}{{- else -}}5{{- end -}}
{{- end -}}

{{/* The scheme of the listener, in the letters of a probe. */}}
{{- define "weir.scheme" -}}
{{- if .Values.config.tls -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}

{{/* weir.yaml: config, with the members that depend on the other objects. */}}
{{- define "weir.yaml" -}}
{{- $name := include "weir.fullname" . -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "listen" "0.0.0.0:8088" -}}
{{- $store := include "weir.store" . | fromYaml -}}
{{- if $store -}}{{- $_ := set $config "store" $store -}}{{- end -}}
{{- if include "weir.shared" . -}}
  {{- $cluster := $config.cluster | default dict -}}
  {{- $_ := set $cluster "key" "${CLUSTER_KEY}" -}}
  {{- $_ := set $cluster "node" "${POD_NAME}" -}}
  {{- $_ := set $cluster "advertise" "${POD_IP}:8090" -}}
  {{- $_ := set $cluster "drain" (printf "%ds" (int .Values.drainSeconds)) -}}
  {{- $old := list -}}
  {{- range $i, $_ := .Values.cluster.oldKeys -}}{{- $old = append $old (printf "${CLUSTER_OLD_KEY_%d}" $i) -}}{{- end -}}
  {{- if $old -}}{{- $_ := set $cluster "old_keys" $old -}}{{- end -}}
  {{- $_ := set $config "cluster" $cluster -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not $config.public_url) -}}
  {{- $_ := set $config "public_url" (printf "%s://%s" (ternary "https" "http" (ne .Values.ingress.tlsSecret "")) .Values.ingress.host) -}}
{{- end -}}
{{- $http := $config.http | default dict -}}
{{- if or $config.public_url $http.allowed_hosts -}}
  {{- /* Once one name is known, weir refuses the others: those of the Service are for clients in the cluster. */ -}}
  {{- $service := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
  {{- $_ := set $http "allowed_hosts" (concat ($http.allowed_hosts | default list) $service) -}}
  {{- $_ := set $config "http" $http -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* What a schema cannot say: each message names the value to change. */}}
{{- define "weir.check" -}}
{{- if not .Values.config.auth -}}
  {{- fail "config.auth is missing: other machines reach the gateway, so it needs tokens, issuers or server (docs/kubernetes.md has the commands)" -}}
{{- end -}}
{{- $many := or (gt (int .Values.replicaCount) 1) .Values.autoscaling.enabled -}}
{{- if and $many (not (include "weir.shared" .)) -}}
  {{- fail "several gateways need a store that they share: set nats.enabled, or config.store to the nats:// URLs of servers elsewhere, or replicaCount to 1" -}}
{{- end -}}
{{- if and (include "weir.shared" .) (not .Values.cluster.key.name) -}}
  {{- fail "cluster.key.name is missing: the Secret with the key that all gateways share (openssl rand -base64 32)" -}}
{{- end -}}
{{- if and .Values.nats.enabled (not .Values.nats.password.name) -}}
  {{- fail "nats.password.name is missing: the Secret with the password of the NATS servers (openssl rand -hex 32)" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
  {{- fail "ingress.host is missing: the name by which clients reach the gateway" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.token.name) -}}
  {{- fail "serviceMonitor.token.name is missing: the Secret with the token of Prometheus, whose SHA-256 stands in config.auth.tokens with metrics: true" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.callsInFlight) (not .Values.autoscaling.cpu) -}}
  {{- fail "autoscaling has nothing to scale by: set autoscaling.callsInFlight or autoscaling.cpu" -}}
{{- end -}}
{{- end -}}
