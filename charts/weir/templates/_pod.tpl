{{/* The pod of a gateway, of the Deployment and of the StatefulSet. */}}
{{- define "weir.pod" -}}
metadata:
  labels:
    {{- include "weir.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration replaces the pods in turn, and stops at one that refuses it.
    checksum/config: {{ printf "%s%s" (include "weir.yaml" .) .Values.lock | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "weir.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add (include "weir.drain" .) 5 25 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: weir
      image: {{ include "weir.image" (dict "image" .Values.image "version" .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /config/weir.yaml, --log-format, json]
      env:
        - {name: XDG_STATE_HOME, value: /state}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        {{- if include "weir.shared" . }}
        - {name: CLUSTER_KEY, valueFrom: {secretKeyRef: {name: {{ .Values.cluster.key.name }}, key: {{ .Values.cluster.key.key }}}}}
        {{- range $i, $key := .Values.cluster.oldKeys }}
        - {name: CLUSTER_OLD_KEY_{{ $i }}, valueFrom: {secretKeyRef: {name: {{ $key.name }}, key: {{ $key.key }}}}}
        {{- end }}
        {{- end }}
        {{- if .Values.nats.enabled }}
        - {name: NATS_PASSWORD, valueFrom: {secretKeyRef: {name: {{ .Values.nats.password.name }}, key: {{ .Values.nats.password.key }}}}}
        {{- end }}
        {{- range $name, $ref := .Values.secrets.env }}
        - {name: {{ $name }}, valueFrom: {secretKeyRef: {name: {{ $ref.name }}, key: {{ $ref.key }}}}}
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: http, containerPort: 8088}
        {{- if include "weir.shared" . }}
        - {name: peer, containerPort: 8090}
        {{- end }}
      # Without a Host header: the kubelet sends the address of the pod, which weir always answers to.
      startupProbe: # a gateway without its store serves, so a restart would not help
        httpGet: {path: /healthz, port: http, scheme: {{ include "weir.scheme" . }}}
        {{- toYaml .Values.startupProbe | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: http, scheme: {{ include "weir.scheme" . }}}
        {{- toYaml .Values.readinessProbe | nindent 8 }}
      livenessProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ include "weir.scheme" . }}}
        {{- toYaml .Values.livenessProbe | nindent 8 }}
      lifecycle:
        preStop: {sleep: {seconds: 5}} # until no Service sends new connections here
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /config, readOnly: true}
        - {name: state, mountPath: /state}
        - {name: tmp, mountPath: /tmp}
        {{- range $name, $_ := .Values.secrets.files }}
        - {name: secret-{{ $name }}, mountPath: /secrets/{{ $name }}, readOnly: true}
        {{- end }}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - {name: config, configMap: {name: {{ include "weir.fullname" . }}}}
    {{- if not .Values.persistence.enabled }}
    - {name: state, emptyDir: {}}
    {{- end }}
    - {name: tmp, emptyDir: {}}
    {{- range $name, $ref := .Values.secrets.files }}
    - {name: secret-{{ $name }}, secret: {secretName: {{ $ref.name }}, defaultMode: 0440}}
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1 # the loss of one machine takes one gateway
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "weir.selector" . | nindent 10 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
